"""Chunks of a chat stream → generation events, with nothing shown that the whole answer would not contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from responses_plugin.generation.chat import CallAssembler, reasoning_of, whole_call
from responses_plugin.generation.events import Failed, Finished, GenerationEvent, ReasoningDelta, TextDelta
from responses_plugin.generation.holdback import TextGate
from responses_plugin.protocol.response import Usage

#: What the host's chunks say when generation broke off without an error frame.
_BROKEN_OFF = "The engine stopped before the answer was finished."


@dataclass(frozen=True)
class WholeAnswer:
    """A finished answer as the host's whole-text parsers understand it."""

    text: str
    calls: Sequence[tuple[str, str]] = ()


def usage_of(counts: Mapping[str, Any] | None) -> Usage:
    """The host's token counts as the protocol has them."""
    counts = counts or {}
    return Usage(input_tokens=counts.get("prompt_tokens") or 0, output_tokens=counts.get("completion_tokens") or 0)


class ChunkReader:
    """Reads one stream.

    Before release 0.6.0 the host ends a stream that failed with a bare ``[DONE]``, and before 0.5.0 a good stream of
    tool calls may lack its finish reason. So the end is a good one if there was a finish reason or a call.
    """

    def __init__(self, markers: Sequence[str]) -> None:
        self._text = TextGate(markers)
        self._reasoning = TextGate()
        self._reasoning_open = False
        self._calls = CallAssembler()
        self._finish_reason: str | None = None
        self._failure: Failed | None = None
        self._usage = Usage()
        self.reasoning: list[str] = []

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[GenerationEvent]:
        if error := chunk.get("error"):
            code = error.get("code")
            self._failure = Failed(
                str(error.get("message") or _BROKEN_OFF), code if isinstance(code, str) else "server_error"
            )
            return
        if chunk.get("usage"):
            self._usage = usage_of(chunk["usage"])
        for choice in chunk.get("choices") or ():
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            delta = choice.get("delta") or {}
            if reasoning := reasoning_of(delta):
                yield from self._think(reasoning)
            if (content := delta.get("content")) and (certain := self._text.feed(content)):
                yield from self._say(certain)
            if calls := delta.get("tool_calls"):
                # Whatever text still comes is white space and markup between calls, unless the whole answer says
                # otherwise.
                self._text.wait()
                yield from self._calls.feed(calls)

    @property
    def failed(self) -> bool:
        """Whether an error frame has come."""
        return self._failure is not None

    def finish(self, whole: WholeAnswer | None, reasoning_tokens: int) -> Iterator[GenerationEvent]:
        """The events that end the answer. ``whole`` is None when the host could not be asked."""
        ended = self._finish_reason not in (None, "error") or self._calls.calls
        if self._failure or not ended:
            yield self._failure or Failed(_BROKEN_OFF)
            return
        truncated = self._finish_reason == "length"
        if not truncated:
            yield from self._calls.close()
        if rest := self._text.settle(whole.text if whole else None).strip():
            yield from self._say(rest)
        for name, arguments in self._unseen_calls(whole):
            yield from whole_call(name, arguments)
        yield Finished(replace(self._usage, reasoning_tokens=reasoning_tokens), truncated)

    def _think(self, text: str) -> Iterator[GenerationEvent]:
        if not self._reasoning_open:
            self._reasoning, self._reasoning_open = TextGate(), True
        if certain := self._reasoning.feed(text):
            self.reasoning.append(certain)
            yield ReasoningDelta(certain)

    def _say(self, text: str) -> Iterator[GenerationEvent]:
        self._reasoning_open = False
        yield TextDelta(text)

    def _unseen_calls(self, whole: WholeAnswer | None) -> Sequence[tuple[str, str]]:
        """Calls that only the whole-text parser found."""
        seen = [name for name, _ in self._calls.calls]
        if whole is None or [name for name, _ in whole.calls[: len(seen)]] != seen:
            return ()
        return whole.calls[len(seen) :]
