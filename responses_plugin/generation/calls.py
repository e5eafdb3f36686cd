"""Tool calls of a chat stream → generation events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from responses_plugin.generation.events import CallArguments, CallFinished, CallStarted, GenerationEvent
from responses_plugin.generation.json_text import ObjectScanner


def whole_call(name: str, arguments: str) -> Iterator[GenerationEvent]:
    """The events of a call that came at once. One whose arguments object was cut off is not finished."""
    scanner = ObjectScanner()
    yield CallStarted(name)
    yield CallArguments(scanner.feed(arguments))
    if not scanner.open:
        yield CallFinished()


def is_whole(delta: Mapping[str, Any]) -> bool:
    """Whether a ``tool_calls`` delta is a complete call rather than a fragment of one."""
    function = delta.get("function") or {}
    return bool(function.get("name")) and _is_complete(function.get("arguments") or "")


def complete_calls(calls: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """The leading ones of ``calls``, given as name and arguments, that are complete."""
    return list(takewhile(lambda call: _is_complete(call[1]), calls))


def _is_complete(arguments: str) -> bool:
    scanner = ObjectScanner()
    scanner.feed(arguments)
    return scanner.complete


class CallAssembler:
    """Turns fragments of calls, which carry an index, into events.

    A call begins with its name. It is finished when its arguments object closes, or when the next call begins; later
    fragments of a finished call say nothing new and are left out.
    """

    def __init__(self) -> None:
        self._index: int | None = None
        self._id: str | None = None
        self._scanner: ObjectScanner | None = None
        self._names: list[str] = []

    @property
    def open(self) -> bool:
        """Whether a call has begun and is not finished."""
        return self._scanner is not None

    def feed(self, deltas: Sequence[Mapping[str, Any]]) -> Iterator[GenerationEvent]:
        """The events of the ``tool_calls`` of one chunk."""
        for delta in deltas:
            function = delta.get("function") or {}
            name, index, id = function.get("name"), delta.get("index") or 0, delta.get("id")
            if name and (index != self._index or id not in (None, self._id)):
                yield from self.close()
                self._index, self._id, self._scanner = index, id, ObjectScanner()
                self._names.append(name)
                yield CallStarted(name)
            fragment = function.get("arguments")
            if fragment and self._scanner is not None and index == self._index:
                yield CallArguments(self._scanner.feed(fragment))
                if self._scanner.complete:
                    yield from self.close()

    def close(self) -> Iterator[GenerationEvent]:
        """Finish the call that is open, if one is."""
        if self._scanner is not None:
            self._scanner = None
            yield CallFinished()

    def take_names(self) -> list[str]:
        """The names of the calls begun since this was last asked."""
        names, self._names = self._names, []
        return names
