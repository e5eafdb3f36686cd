"""A store in memory, bounded by entries and bytes; the turns that were not used for longest go first."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from responses_plugin.protocol.items import Item
from responses_plugin.store.base import StoredTurn

#: Bytes counted for a JSON value besides its text; an estimate, images dwarf it.
_OVERHEAD = 64

#: How many conversations that lost turns are remembered as such.
_REMEMBERED_CUTS = 10_000


class MemoryStore:
    """Using a chain of turns makes all of it recent, so an active session is not cut off at its beginning."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._turns: OrderedDict[str, StoredTurn] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        #: The same item may stand in many turns, each of which replayed it: by its id, then by the id of the turn.
        self._items: defaultdict[str, dict[str, Item]] = defaultdict(dict)
        self._conversations: defaultdict[str, list[str]] = defaultdict(list)
        #: Conversations that lost a turn to newer ones, the latest last.
        self._cut: OrderedDict[str, None] = OrderedDict()

    def save(self, turn: StoredTurn) -> None:
        self._turns[turn.id] = turn
        self._sizes[turn.id] = size = _size(turn)
        self._bytes += size
        for item in (*turn.input, *turn.output):
            if item.id is not None:
                self._items[item.id][turn.id] = item
        if turn.conversation_id is not None:
            self._conversations[turn.conversation_id].append(turn.id)
        # The newest turn stays even if it alone is over the limit: its id has just been handed out.
        while len(self._turns) > 1 and (len(self._turns) > self._max_entries or self._bytes > self._max_bytes):
            self._drop(next(iter(self._turns.values())))

    def _drop(self, turn: StoredTurn) -> None:
        """Make room. A conversation without its beginning is not shown as if it were whole."""
        self.delete(turn.id)
        if turn.conversation_id is not None:
            self._cut[turn.conversation_id] = None
            while len(self._cut) > _REMEMBERED_CUTS:
                self._cut.popitem(last=False)

    def get(self, response_id: str) -> StoredTurn | None:
        turn = self._turns.get(response_id)
        if turn is not None:
            self._turns.move_to_end(response_id)
        return turn

    def delete(self, response_id: str) -> bool:
        turn = self._turns.pop(response_id, None)
        if turn is None:
            return False
        self._bytes -= self._sizes.pop(response_id)
        for item_id in {item.id for item in (*turn.input, *turn.output) if item.id is not None}:
            del self._items[item_id][response_id]
            if not self._items[item_id]:
                del self._items[item_id]
        if turn.conversation_id is not None:
            remaining = self._conversations[turn.conversation_id]
            remaining.remove(response_id)
            if not remaining:
                del self._conversations[turn.conversation_id]
        return True

    def history(self, response_id: str) -> Sequence[Item]:
        chain: list[StoredTurn] = []
        next_id: str | None = response_id
        while next_id is not None:
            chain.append(self._turns[next_id])
            next_id = chain[-1].previous_response_id
        return self._items_of(reversed(chain))

    def conversation(self, conversation_id: str) -> Sequence[Item]:
        if conversation_id in self._cut:
            raise KeyError(conversation_id)
        return self._items_of(self._turns[id] for id in list(self._conversations.get(conversation_id, ())))

    def item(self, item_id: str) -> Item | None:
        if item_id not in self._items:
            return None
        turn_id, item = next(reversed(self._items[item_id].items()))
        self._turns.move_to_end(turn_id)
        return item

    def _items_of(self, turns: Iterable[StoredTurn]) -> list[Item]:
        items: list[Item] = []
        for turn in turns:
            self._turns.move_to_end(turn.id)
            items.extend(turn.input)
            items.extend(turn.output)
        return items


def _size(turn: StoredTurn) -> int:
    """Roughly the bytes a turn holds in memory."""
    return _weigh(turn.response) + sum(_weigh(item.wire()) for item in turn.input)


def _weigh(value: Any) -> int:
    if isinstance(value, str):
        return len(value) + _OVERHEAD
    if isinstance(value, dict):
        return sum(_weigh(key) + _weigh(element) for key, element in value.items()) + _OVERHEAD
    if isinstance(value, list):
        return sum(map(_weigh, value)) + _OVERHEAD
    return _OVERHEAD
