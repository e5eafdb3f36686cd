"""What the model writes in the tests of real clients, cut into pieces of about the size of tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.host.scripted import Script

if TYPE_CHECKING:
    from collections.abc import Mapping

#: No divisor of any marker's length: markers are cut anywhere.
PIECE = 5


def says(text: str, **options: Any) -> Script:
    """The model writes this, token by token."""
    return Script([text[start : start + PIECE] for start in range(0, len(text), PIECE)], **options)


def calls(*named: tuple[str, Mapping[str, Any]], before: str = "", **options: Any) -> Script:
    """The model calls these tools at once, under the names that it knows them by."""
    texts = [
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" for name, arguments in named
    ]
    return says(before + "\n".join(texts), **options)
