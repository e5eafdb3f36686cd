"""Chat-completions answers → generation events.

Both forms are public protocols, the same in every release of the host: a whole completion, and the chunks of a
stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from responses_plugin.generation.events import (
    CallArguments,
    CallFinished,
    CallStarted,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
)
from responses_plugin.generation.json_text import ObjectScanner


def events_of_message(message: Mapping[str, Any]) -> Iterator[GenerationEvent]:
    """The events of a whole assistant message, in the order a stream would have had."""
    if reasoning := reasoning_of(message):
        yield ReasoningDelta(reasoning)
    if content := message.get("content"):
        yield TextDelta(content)
    for call in message.get("tool_calls") or ():
        yield from whole_call(call["function"]["name"], call["function"]["arguments"])


def reasoning_of(message: Mapping[str, Any]) -> str | None:
    """The host's two names for the reasoning channel, by release."""
    text: str | None = message.get("reasoning_content") or message.get("reasoning")
    return text


def whole_call(name: str, arguments: str) -> Sequence[GenerationEvent]:
    return CallStarted(name), CallArguments(arguments), CallFinished()


class CallAssembler:
    """Turns the ``tool_calls`` deltas of a stream into events.

    Hosts send a call whole or in fragments that carry an index. A call is finished when its arguments object
    closes, or when the next call begins; later fragments of a finished call say nothing new and are left out.
    """

    def __init__(self) -> None:
        self._index: int | None = None
        self._id: str | None = None
        self._scanner: ObjectScanner | None = None
        self._fragments: list[str] = []
        #: Name and arguments of every call begun so far.
        self.calls: list[tuple[str, str]] = []

    def feed(self, deltas: Sequence[Mapping[str, Any]]) -> Iterator[GenerationEvent]:
        for delta in deltas:
            function = delta.get("function") or {}
            index = delta.get("index", self._index or 0)
            if index != self._index or delta.get("id") not in (None, self._id):
                yield from self.close()
                self._index, self._id = index, delta.get("id")
                self._scanner = ObjectScanner()
                self._fragments = []
                self.calls.append((function.get("name") or "", ""))
                yield CallStarted(function.get("name") or "")
            fragment = function.get("arguments")
            if fragment and self._scanner is not None:
                self._fragments.append(fragment)
                yield CallArguments(fragment)
                if self._scanner.feed(fragment):
                    yield from self.close()

    def close(self) -> Iterator[GenerationEvent]:
        """Finish the call that is open, if one is."""
        if self._scanner is not None:
            name, _ = self.calls[-1]
            self.calls[-1] = (name, "".join(self._fragments))
            self._scanner = None
            yield CallFinished()
