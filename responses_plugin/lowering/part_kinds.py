"""What a content part type is, as plugins contribute them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from responses_plugin.lowering.messages import ChatPart
from responses_plugin.protocol.parts import Part

#: A wire model, named here because a kind has a field called ``type``.
PartModel = type[Part]


@dataclass(frozen=True)
class ContentPartKind:
    """One content-part ``type``: its wire model, what it becomes for chat, and a check made while parsing.

    ``check`` raises :class:`RequestError` for a part that can never be used; ``path`` names the part in the body.
    """

    type: str
    model: PartModel
    lower: Callable[[Any], ChatPart]
    check: Callable[[Any, str], None] | None = None
