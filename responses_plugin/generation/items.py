"""The wire form of generated tool calls, one value an item type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class PayloadDecoder(Protocol):
    """Turns the arguments text of a call into its payload while it arrives. One instance a call."""

    def feed(self, fragment: str) -> str:
        """Payload text that is certain after ``fragment``; may be empty."""

    def finish(self) -> str:
        """The whole payload. For a well-formed one, all that :meth:`feed` returned is a prefix of it."""


@dataclass(frozen=True, kw_only=True)
class OutputItemKind:
    """How a call of one kind looks on the wire.

    The item is ``{id, type, status, call_id, name, <payload>}`` plus ``fields``. Its payload grows through
    ``delta_event`` and is repeated whole in ``done_event``. A kind whose payload is not text leaves both events out
    and gives ``build``, which makes the payload's value of whatever the model wrote; where it raises ``ValueError`` the
    client gets a plain function call. Such an item is sent once it is whole.
    """

    type: str
    id_prefix: str
    payload: str
    decoder: Callable[[], PayloadDecoder]
    delta_event: str | None = None
    done_event: str | None = None
    build: Callable[[str], Any] = field(default=lambda text: text)
    named: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict)


class VerbatimDecoder:
    """The payload is the arguments text itself. A call without any arguments has an empty object."""

    def __init__(self) -> None:
        self._fragments: list[str] = []
        self._begun = False

    def feed(self, fragment: str) -> str:
        self._fragments.append(fragment)
        if self._begun:
            return fragment
        # Nothing but white space may turn out to be no arguments at all.
        self._begun = bool(fragment.strip())
        return "".join(self._fragments) if self._begun else ""

    def finish(self) -> str:
        text = "".join(self._fragments)
        return text if text.strip() else "{}"
