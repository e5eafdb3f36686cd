"""What the service needs of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from responses_plugin.protocol.items import Item
from responses_plugin.protocol.response import Wire


@dataclass(frozen=True)
class StoredTurn:
    """One answered request: its own input items (not those it inherited) and the whole response object."""

    response: Wire
    input: Sequence[Item]
    output: Sequence[Item]
    previous_response_id: str | None = None
    conversation_id: str | None = None

    @property
    def id(self) -> str:
        return str(self.response["id"])


class ResponseStore(Protocol):
    """Keeps turns. A turn is stored whole or not at all; methods may be called from any task of one event loop."""

    def save(self, turn: StoredTurn) -> None:
        """Store a turn; replaces nothing, ids are unique."""

    def get(self, response_id: str) -> StoredTurn | None: ...

    def delete(self, response_id: str) -> bool:
        """Forget a turn; False if there was none."""

    def history(self, response_id: str) -> Sequence[Item]:
        """The items of a chain of turns up to and including this one, oldest first.

        Raises :class:`KeyError` with the id of the turn that is missing.
        """

    def conversation(self, conversation_id: str) -> Sequence[Item]:
        """The items of a conversation, oldest first; empty for one that has not begun.

        Raises :class:`KeyError` with its id when part of it is gone.
        """

    def item(self, item_id: str) -> Item | None:
        """An output or input item of a stored turn, by its id."""
