"""A stream, whatever its cuts, becomes the response that the same text gives when it comes at once."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.generation.events import (
    CallArguments,
    CallFinished,
    CallStarted,
    Failed,
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
)
from responses_plugin.generation.markup import Markup, MarkupWatch
from responses_plugin.generation.reader import ChunkReader, WholeAnswer, budget_spent, events_of_whole, usage_of
from responses_plugin.generation.thought import split_unclosed_thought
from responses_plugin.protocol.response import Usage
from tests.generation.building import new_builder, read, run
from tests.generation.cuts import every_cut, pieces_of
from tests.generation.effort import lines_executed, longest_string

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from responses_plugin.protocol.response import Wire

MARKUP = Markup(["<think>", "</think>", "<tool_call>", "</tool_call>"])
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)

Chunk = dict[str, Any]


def said(content: str) -> Chunk:
    return {"choices": [{"delta": {"content": content}}]}


def thought(text: str, name: str = "reasoning") -> Chunk:
    return {"choices": [{"delta": {name: text}}]}


def called(name: str | None, arguments: str, *, index: int = 0) -> Chunk:
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"choices": [{"delta": {"tool_calls": [{"index": index, "function": function}]}}]}


def ended(reason: str | None = "stop") -> Chunk:
    return {"choices": [{"delta": {}, "finish_reason": reason}]}


COUNTS = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}}
BROKEN = {"error": {"message": "Metal ran out of memory", "code": 500}}


class FakeSource:
    """A host whose whole-text parsers are right. Without an answer it cannot be asked."""

    def __init__(self, *, whole: WholeAnswer | None = None, markup_seen: bool = False) -> None:
        self.markup = MARKUP
        self.markup_seen = markup_seen
        self.thought_certain = True
        self.token_limit: int | None = None
        self.answer = whole

    def whole(self, *, truncated: bool, ended: bool = True) -> WholeAnswer | None:
        return self.answer


class LeakingHost(FakeSource):
    """A host whose whole-text parsers are right, and whose incremental ones leak all markup of calls."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self._watch = MarkupWatch(Markup(["<tool_call>", "</tool_call>"]))

    def whole(self, *, truncated: bool, ended: bool = True) -> WholeAnswer:
        before, tag, content = self._text.partition("</think>")
        if tag:
            reasoning = before.removeprefix("<think>").strip()
        else:
            reasoning, content = split_unclosed_thought(before, start="<think>", end="</think>", opened=False)
        calls = [(call["name"], json.dumps(call["arguments"])) for call in map(json.loads, _CALL.findall(content))]
        return WholeAnswer(_CALL.sub("", content).strip(), reasoning, calls, content)

    def chunks(self, pieces: Iterable[str]) -> Iterator[Chunk]:
        """What the engine's pieces become; calls are reported whole once they are complete."""
        reasoning = content = ""
        calls = 0
        for piece in pieces:
            self._text += piece
            self._watch.feed(piece)
            self.markup_seen = self._watch.seen
            reasoning_now, content_now = self._split()
            if reasoning_now != reasoning:
                yield thought(reasoning_now[len(reasoning) :])
            if content_now != content:
                yield said(content_now[len(content) :])
            reasoning, content = reasoning_now, content_now
            for index, call in enumerate(self.whole(truncated=False).calls[calls:], calls):
                yield called(*call, index=index)
                calls += 1

    def _split(self) -> tuple[str, str]:
        """Thought and content so far, without a tail that may become a tag of the thought."""
        if len(self._text) < len("<think>") and "<think>".startswith(self._text):
            return "", ""
        if not self._text.startswith("<think>"):
            return "", self._text
        reasoning, tag, content = self._text.removeprefix("<think>").partition("</think>")
        if not tag and "<" in reasoning and "</think>".startswith(tail := reasoning[reasoning.rindex("<") :]):
            reasoning = reasoning.removesuffix(tail)
        return reasoning, content


def events_of(chunks: Iterable[Chunk], source: FakeSource | None = None) -> list[GenerationEvent]:
    """All events of a stream."""
    reader = ChunkReader(source or FakeSource())
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return [*events, *reader.finish(len)]


def output_of(events: Iterable[GenerationEvent]) -> list[Wire]:
    """The output of the response that the events give, ids aside; the stream is checked as a client reads it."""
    builder = new_builder()
    read(run(builder, events))
    return [
        {name: value for name, value in item.items() if name not in {"id", "call_id"}}
        for item in builder.response["output"]
    ]


def shown(events: Iterable[GenerationEvent]) -> str:
    """The text that the events show, of all messages."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


# --- Streamed or at once, the same -----------------------------------------------------------------------------------

_words = st.text("ab <>|{}\n", max_size=10)
_call_texts = st.builds(
    lambda name, arguments: f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>",
    st.sampled_from(["get_weather", "apply_patch"]),
    st.dictionaries(st.text("xy<", max_size=3), _words, max_size=1),
)
raw_answers = st.builds(
    lambda reasoning, parts: (f"<think>{reasoning}</think>" if reasoning else "") + "".join(parts),
    st.sampled_from(["", " Let me think. ", "Not a <tool_call>, nor <|im_end|>, yet.\n"]),
    st.lists(_words | _call_texts, max_size=5),
)


@given(st.data(), raw_answers, st.booleans())
def test_a_stream_gives_the_response_of_the_whole_answer(data: st.DataObject, raw: str, truncated: bool) -> None:
    """Text, thought and calls, cut anywhere, or cut off anywhere: the same items as when the answer comes at once."""
    if truncated:
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    host = LeakingHost()
    chunks = itertools.chain(host.chunks(data.draw(pieces_of(raw))), [ended("length" if truncated else "stop"), COUNTS])
    events = events_of(chunks, host)
    whole = host.whole(truncated=truncated)
    at_once = [*events_of_whole(whole, MARKUP), Finished(Usage(), truncated)]
    assert output_of(events) == output_of(at_once)
    if not whole.calls:
        assert shown(events) == whole.text


@pytest.mark.parametrize("before", ["", "Let me look. "])
def test_no_part_of_a_call_is_shown_wherever_it_is_cut(before: str) -> None:
    """The markup is nowhere in the text, and what stands before it comes before the call."""
    raw = f'{before}<tool_call>{{"name": "get_weather", "arguments": {{"city": "<Paris>"}}}}</tool_call>'
    for pieces in every_cut(raw):
        host = LeakingHost()
        events = events_of(itertools.chain(host.chunks(pieces), [ended("tool_calls")]), host)
        assert shown(events) == before.strip(), pieces
        assert [type(event) for event in events][-4:] == [CallStarted, CallArguments, CallFinished, Finished]


def test_text_before_a_call_and_after_it() -> None:
    """What was said before the call is a message before it, what is said afterwards one of its own, without the gap."""
    whole = WholeAnswer("Before.\n\nAfter.", "", [("get_weather", "{}")], "Before.\n<tool_call>…</tool_call>\nAfter.")
    chunks = [said("Before.\n"), called("get_weather", "{}"), said("\nAfter."), said("\n"), ended()]
    first, call, last = output_of(events_of(chunks, FakeSource(whole=whole)))
    assert first["content"][0]["text"] == "Before."
    assert call["name"] == "get_weather"
    assert last["content"][0]["text"] == "After."


def test_only_the_end_is_held_to_a_form() -> None:
    """An answer whose call has just begun may look like one without calls that is not the JSON it must be."""
    asked = []

    class Judge(FakeSource):
        def whole(self, *, truncated: bool, ended: bool = True) -> WholeAnswer | None:
            asked.append(ended)
            return super().whole(truncated=truncated)

    events_of([said("Look."), called("get_weather", "{"), called(None, "}"), ended()], Judge())
    assert asked == [False, True]


def test_what_the_host_held_back_comes_at_the_end() -> None:
    """Text that only the whole-text parser lets through joins what was shown, white space between them included."""
    chunks = [said("Hello"), said(" <tool_call> is"), said(" a tag"), ended()]
    events = events_of(chunks, FakeSource(whole=WholeAnswer("Hello <tool_call> is a tag.")))
    assert shown(events) == "Hello <tool_call> is a tag."
    assert len(output_of(events)) == 1


def test_calls_that_only_the_whole_text_parser_finds() -> None:
    """They are made at the end, and only those that were not made already."""
    whole = WholeAnswer("", "", [("get_weather", "{}"), ("apply_patch", '{"input": "a"}')])
    one = output_of(events_of([called("get_weather", "{}"), ended()], FakeSource(whole=whole)))
    none = output_of(events_of([ended()], FakeSource(whole=whole)))
    assert [item["name"] for item in one] == [item["name"] for item in none] == ["get_weather", "apply_patch"]


def test_a_thought_that_only_the_whole_text_parser_finds() -> None:
    """It comes before the text, and counts as reasoning."""
    events = events_of([ended(), COUNTS], FakeSource(whole=WholeAnswer("Yes.", "Hm.")))
    assert events[:2] == [ReasoningDelta("Hm."), TextDelta("Yes.")]
    assert isinstance(events[-1], Finished)
    assert events[-1].usage.reasoning_tokens == 3


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_a_thought_is_shown_as_it_comes(name: str) -> None:
    """Under either of its names, tags and special tokens it talks about included, white space around it aside."""
    pieces = ["\n", "A <|im_end|>", " and a <tool_call>", " <", "\n\n"]
    events = events_of([*(thought(piece, name) for piece in pieces), said("Yes."), ended()])
    assert events[:-1] == [
        ReasoningDelta("A <|im_end|>"),
        ReasoningDelta(" and a <tool_call>"),
        ReasoningDelta(" <"),
        TextDelta("Yes."),
    ]


def test_a_thought_that_is_not_certain_waits() -> None:
    """What may be an answer after all is shown as a thought once it is known to be one, all of it at once."""
    source = FakeSource()
    source.thought_certain = False
    reader = ChunkReader(source)
    assert [*reader.feed(thought("Hm, ")), *reader.feed(thought("well"))] == []
    source.thought_certain = True
    assert list(reader.feed(thought(". "))) == [ReasoningDelta("Hm, well.")]
    assert list(reader.feed(thought("So"))) == [ReasoningDelta(" So")]
    assert list(reader.feed(said("Yes."))) == [TextDelta("Yes.")]


def test_a_thought_that_was_none_is_the_answer() -> None:
    """A model that did not think is taken by its answer, as the whole-text parser reads it."""
    source = FakeSource(whole=WholeAnswer("Hello there.", "", [], "Hello there."))
    source.thought_certain = False
    events = events_of([thought("Hello "), thought("there."), ended(), COUNTS], source)
    assert events[:-1] == [TextDelta("Hello there.")]
    assert isinstance(events[-1], Finished)
    assert events[-1].usage.reasoning_tokens == 0


def test_a_thought_that_nobody_can_judge_is_what_the_host_takes_it_for() -> None:
    """Where the whole text cannot be asked for, what was held back is not lost."""
    source = FakeSource()
    source.thought_certain = False
    events = events_of([thought(" Hm, "), thought("well."), said("{}"), ended()], source)
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "Hm, well."
    assert shown(events) == "{}"


def test_thoughts_around_a_call_are_items_of_their_own() -> None:
    """The white space at the end of one thought does not open the next."""
    chunks = [thought("One.\n"), called("get_weather", "{}"), thought("\nTwo."), said("Yes."), ended()]
    first, _, second, _ = output_of(events_of(chunks))
    assert first["content"][0]["text"] == "One."
    assert second["content"][0]["text"] == "Two."


def test_structured_output_is_shown_as_the_host_checked_it() -> None:
    """Where the whole text cannot be asked for, the chunks are the answer."""
    events = events_of([said('{"a": '), said('"<tool_call>"}'), said("\n"), ended()])
    assert shown(events) == '{"a": "<tool_call>"}'


# --- Calls in fragments ----------------------------------------------------------------------------------------------


@given(st.data(), st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2).map(json.dumps))
def test_fragments_of_a_call_are_passed_on_as_they_come(data: st.DataObject, arguments: str) -> None:
    """The joined fragments are the arguments; the call is finished with the piece that completes it."""
    pieces = data.draw(pieces_of(arguments))
    reader = ChunkReader(FakeSource(whole=WholeAnswer("")))
    events: list[GenerationEvent] = list(reader.feed(called("get_weather", "")))
    assert events == [CallStarted("get_weather")]
    for piece in pieces:
        events += reader.feed(called(None, piece))
    assert "".join(event.fragment for event in events if isinstance(event, CallArguments)) == arguments
    assert events[-1] == CallFinished()
    assert [type(event) for event in reader.finish(len)] == [Finished]


def test_a_call_that_is_cut_off_is_the_last_item_and_incomplete() -> None:
    """The budget ran out inside the call: neither its markup nor anything else is shown after it."""
    leftover = '<tool_call>get_weather{"ci'
    source = FakeSource(whole=WholeAnswer(leftover, "", [], leftover))
    chunks = [called("get_weather", ""), called(None, '{"ci'), ended("length"), COUNTS]
    (item,) = output_of(events_of(chunks, source))
    assert (item["type"], item["status"], item["arguments"]) == ("function_call", "incomplete", '{"ci')


def test_bare_arguments_end_with_the_stream() -> None:
    """Text that is no object is a whole call if the model stopped of itself."""
    (item,) = output_of(events_of([called("apply_patch", "*** Begin"), called(None, " Patch"), ended("tool_calls")]))
    assert (item["type"], item["status"], item["input"]) == ("custom_tool_call", "completed", "*** Begin Patch")


# --- The end ---------------------------------------------------------------------------------------------------------


def last(chunks: Iterable[Chunk], source: FakeSource | None = None) -> GenerationEvent:
    return events_of(chunks, source)[-1]


def test_usage_and_the_token_budget() -> None:
    """The counts of the last chunk that has some, reasoning counted anew but never more than there was output."""
    assert last([thought("Hm."), said("a"), ended("length"), COUNTS]) == Finished(Usage(5, 9, 0, 0, 3), truncated=True)
    long = last([thought("x" * 50), ended("stop"), COUNTS])
    assert long == Finished(Usage(5, 9, 0, 0, 9))


@pytest.mark.parametrize(
    ("reason", "used", "limit", "spent"),
    [
        ("length", 3, None, True),
        ("stop", 3, None, False),
        ("stop", 3, 4, False),
        ("stop", 4, 4, True),
        ("tool_calls", 4, 4, True),
        (None, 0, 4, False),
    ],
)
def test_when_the_budget_is_spent(reason: str | None, used: int, limit: int | None, spent: bool) -> None:
    """By what the host says, or by the count where it does not say it."""
    assert budget_spent(reason, Usage(output_tokens=used), limit) is spent


def test_usage_that_is_missing_or_null_is_zero() -> None:
    """Not every engine counts."""
    assert usage_of(None) == usage_of({}) == usage_of({"prompt_tokens": None}) == Usage()


def test_an_end_without_a_finish_reason_is_a_failure() -> None:
    """Older hosts end a stream that failed without a word; what was said until then was not the whole answer."""
    assert isinstance(last([said("Hel")]), Failed)
    assert isinstance(last([]), Failed)
    assert isinstance(last([thought("Hm.")]), Failed)


def test_a_whole_call_without_a_finish_reason_is_fine() -> None:
    """Older hosts leave it out after a call."""
    assert isinstance(last([called("get_weather", "{}")]), Finished)


def test_a_call_without_its_end_and_without_a_finish_reason_is_a_failure() -> None:
    """A call that broke off in the middle is not made."""
    events = events_of([called("get_weather", ""), called(None, '{"ci')])
    assert isinstance(events[-1], Failed)
    assert CallFinished() not in events


@pytest.mark.parametrize("chunks", [[], [called("get_weather", "{}")], [said("a"), COUNTS]])
def test_a_finish_reason_error_is_a_failure(chunks: list[Chunk]) -> None:
    """Whatever came before it."""
    assert isinstance(last([*chunks, ended("error")]), Failed)


@pytest.mark.parametrize("after", [[], [ended("stop")], [said("more"), ended("stop"), COUNTS]])
@pytest.mark.parametrize("before", [[], [said("Hel")], [called("get_weather", "{}")]])
def test_an_error_frame_is_a_failure(before: list[Chunk], after: list[Chunk]) -> None:
    """With the host's words, and a code that clients know rather than its number."""
    assert last([*before, BROKEN, *after]) == Failed("Metal ran out of memory", "server_error")


def test_an_error_frame_may_have_a_code() -> None:
    """Clients act on it."""
    frame = {"error": {"message": "Too long.", "code": "context_length_exceeded"}}
    assert last([frame]) == Failed("Too long.", "context_length_exceeded")
    assert last([{"error": {"code": None}}]) == Failed("The engine stopped before the answer was finished.")


@pytest.mark.parametrize(
    "chunk", [{}, {"choices": []}, {"choices": None}, {"choices": [{}]}, {"choices": [{"delta": None}]}]
)
def test_chunks_that_say_nothing(chunk: Chunk) -> None:
    """The first chunk only has a role, the last only counts; null is as good as absent."""
    assert events_of([chunk, said(""), chunk, ended()]) == [Finished(Usage())]


@pytest.mark.parametrize(
    "chunk",
    [said("word "), thought("word "), said(" <tool"), called(None, "word ")],
    ids=["text", "thought", "<", "call"],
)
def test_work_per_chunk_does_not_grow(chunk: Chunk) -> None:
    """A chunk late in a long answer costs what an early one costs, and no long string is copied for it."""
    reader = ChunkReader(FakeSource())
    list(reader.feed(called("apply_patch", '{"input": "')))
    if "tool_calls" not in chunk["choices"][0]["delta"]:
        reader = ChunkReader(FakeSource())
    early = max(lines_executed(lambda: list(reader.feed(chunk))) for _ in range(20))
    for _ in range(5000):
        list(reader.feed(chunk))
    assert max(lines_executed(lambda: list(reader.feed(chunk))) for _ in range(20)) <= early
    assert longest_string(reader) < 1000


# --- Thoughts that were never closed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<think>Hm", False, ("Hm", "")),
        (" <think> Hm ", True, ("Hm", "")),
        ("Hm", True, ("Hm", "")),
        ("Hm", False, ("", "Hm")),
        ("Hm</think>Yes", True, ("", "Hm</think>Yes")),
        ("", True, ("", "")),
    ],
)
def test_an_unclosed_thought_is_no_answer(text: str, opened: bool, expected: tuple[str, str]) -> None:
    """What was cut off while the model was thinking is a thought, by its tag or because the prompt opened it."""
    assert split_unclosed_thought(text, start="<think>", end="</think>", opened=opened) == expected
