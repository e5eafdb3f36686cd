"""The host's answers → generation events, the same ones whether the answer comes at once or in chunks.

The host's whole-text parsers are sturdier than its incremental ones. So the chunks of a stream decide *when*
something can be shown, and the whole-text parsers *what*: text up to the first marker goes out as it comes, a chunk
that brings a tool call has the text so far parsed as a whole, and so does the end of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from responses_plugin.generation.calls import CallAssembler, complete_calls, is_whole, whole_call
from responses_plugin.generation.events import Failed, Finished, GenerationEvent, ReasoningDelta, TextDelta
from responses_plugin.generation.holdback import TextGate
from responses_plugin.generation.markup import Markup
from responses_plugin.protocol.response import Usage

#: What the host's chunks say when generation broke off without an error frame.
_BROKEN_OFF = "The engine stopped before the answer was finished."


@dataclass(frozen=True)
class WholeAnswer:
    """An answer, or its beginning, as the host's whole-text parsers understand it.

    ``content`` is what follows the thought, calls and all; ``text`` is what is left of it for the reader.
    """

    text: str
    reasoning: str = ""
    calls: Sequence[tuple[str, str]] = ()
    content: str = ""


class Source(Protocol):
    """What a stream can be asked while it is read."""

    @property
    def markup(self) -> Markup: ...

    @property
    def markup_seen(self) -> bool:
        """Whether the text after the thought holds a marker by now."""

    @property
    def thought_certain(self) -> bool:
        """Whether what is reported as reasoning is a thought. It may be the answer of a model that did not think, as
        long as no tag has come and the prompt opened none.
        """

    @property
    def token_limit(self) -> int | None:
        """How many tokens the answer may have; None where that is not known."""

    def whole(self, *, truncated: bool, ended: bool = True) -> WholeAnswer | None:
        """The text so far as the host's whole-text parsers read it; None where they cannot be asked.

        Only an answer that has ``ended`` is held to the form that it must have.
        """


def usage_of(counts: Mapping[str, Any] | None) -> Usage:
    """The host's token counts as the protocol has them."""
    counts = counts or {}
    details = counts.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=counts.get("prompt_tokens") or 0,
        output_tokens=counts.get("completion_tokens") or 0,
        cached_tokens=details.get("cached_tokens") or 0,
    )


def budget_spent(finish_reason: str | None, usage: Usage, token_limit: int | None) -> bool:
    """Whether the token budget ended the answer.

    The host says ``tool_calls`` for every answer with a call, and its simple engine says ``stop`` at the limit, so the
    tokens are counted as well.
    """
    return finish_reason == "length" or (token_limit is not None and usage.output_tokens >= token_limit)


def events_of_whole(whole: WholeAnswer, markup: Markup) -> Iterator[GenerationEvent]:
    """The events of a whole answer, without the one that ends it."""
    if whole.reasoning:
        yield ReasoningDelta(whole.reasoning)
    yield from _Text(markup).end(whole, [])


class _Text:
    """The text of an answer, around its calls."""

    def __init__(self, markup: Markup) -> None:
        self._gate = TextGate(markup)
        self.feed = self._gate.feed
        self.wait = self._gate.wait

    def before_call(self, whole: WholeAnswer | None) -> Iterator[TextDelta]:
        """What stands before the first call and has not been shown yet."""
        if whole is not None and (text := self._gate.catch_up(whole.content)):
            yield TextDelta(text)

    def end(self, whole: WholeAnswer | None, seen: Sequence[str]) -> Iterator[GenerationEvent]:
        """What of the whole answer has not been shown yet; ``seen`` are the names of the calls that have."""
        unseen = whole.calls[len(seen) :] if whole and [name for name, _ in whole.calls[: len(seen)]] == seen else ()
        if unseen and not seen:
            yield from self.before_call(whole)
        for name, arguments in unseen:
            yield from whole_call(name, arguments)
        rest = self._gate.settle(whole.text if whole else None)
        # After a call it is a message of its own.
        if rest := rest.lstrip() if seen or unseen else rest:
            yield TextDelta(rest)


class ChunkReader:
    """Reads one stream.

    Before release 0.6.0 the host ends a stream that failed with a bare ``[DONE]``, and before 0.5.0 a good stream of
    tool calls may lack its finish reason. So the end is a good one if there was a finish reason or a whole call.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = _Text(source.markup)
        self._thought: TextGate | None = None
        self._doubtful: list[str] = []
        self._fragments = CallAssembler()
        self._calls: list[str] = []
        self._finish_reason: str | None = None
        self._failure: Failed | None = None
        self._usage = Usage()
        self.reasoning: list[str] = []

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[GenerationEvent]:
        """The events of one chunk."""
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
            # The two names of the reasoning channel, by release.
            if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
                yield from self._thought_of(self._think(reasoning))
            if self._doubtful and self._source.thought_certain:
                yield from self._thought_of(self._think(""))
            if (content := delta.get("content")) and (certain := self._say(content)):
                self._thought = None
                yield TextDelta(certain)
            if calls := delta.get("tool_calls"):
                yield from self._call(calls)

    def finish(self, count_tokens: Callable[[str], int]) -> Iterator[GenerationEvent]:
        """The events that end the answer."""
        if self._failure or not self._ended_well():
            yield self._failure or Failed(_BROKEN_OFF)
            return
        spent = budget_spent(self._finish_reason, self._usage, self._source.token_limit)
        # A call that was cut off is the last item, and all that is left of the text is its markup.
        if not (spent and self._fragments.open):
            yield from self._fragments.close()
            yield from self._rest(self._source.whole(truncated=spent))
        yield Finished(self._usage.with_reasoning(count_tokens("".join(self.reasoning))), spent)

    def _ended_well(self) -> bool:
        if self._finish_reason is None:
            return bool(self._calls) and not self._fragments.open
        return self._finish_reason != "error"

    def _rest(self, whole: WholeAnswer | None) -> Iterator[GenerationEvent]:
        yield from self._end_thought(whole)
        yield from self._text.end(whole, self._calls)

    def _end_thought(self, whole: WholeAnswer | None) -> Iterator[GenerationEvent]:
        """What of the thought has not been shown: an incremental parser takes talk about calls for a call."""
        gate = self._thought or TextGate()
        if whole is None:
            # Nobody can tell better, so it is what the host takes it for.
            yield from self._thought_of(gate.feed("".join(self._doubtful)))
        # A thought that something came after is closed already.
        elif self._thought or not self.reasoning:
            yield from self._thought_of(gate.settle(whole.reasoning))
        self._thought = None
        self._doubtful = []

    def _think(self, text: str) -> str:
        """What of the thought is certain now."""
        if self._thought is None:
            self._thought = TextGate()
        if not self._source.thought_certain:
            self._doubtful.append(text)
            return ""
        if self._doubtful:
            text = "".join([*self._doubtful, text])
            self._doubtful = []
        return self._thought.feed(text)

    def _thought_of(self, certain: str) -> Iterator[GenerationEvent]:
        if certain:
            self.reasoning.append(certain)
            yield ReasoningDelta(certain)

    def _say(self, content: str) -> str:
        """What of the text is certain now."""
        if self._source.markup_seen:
            # The host's parser may have taken markup out of this text, or have it still in.
            self._text.wait()
        return self._text.feed(content)

    def _call(self, deltas: Sequence[Mapping[str, Any]]) -> Iterator[GenerationEvent]:
        if not self._fragments.open:
            whole = self._source.whole(truncated=False, ended=False)
            yield from self._end_thought(whole)
            if not self._calls:
                yield from self._text.before_call(whole)
            # The host's incremental parsers may find a call late, or twice: calls that are there as a whole are taken
            # from its whole-text parser.
            if whole and all(map(is_whole, deltas)):
                for name, arguments in complete_calls(whole.calls)[len(self._calls) :]:
                    self._calls.append(name)
                    yield from whole_call(name, arguments)
                return
        yield from self._fragments.feed(deltas)
        self._calls += self._fragments.take_names()
