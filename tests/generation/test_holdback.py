"""What a stream holds back: nothing is shown that the whole answer does not contain, and nothing else is kept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.generation.holdback import TextGate
from responses_plugin.generation.markup import Markup, MarkupWatch
from tests.generation.cuts import every_cut, pieces_of
from tests.generation.effort import lines_executed, longest_string

MARKERS = ["<tool_call>", "</tool_call>", "<|tool_call>", "[TOOL_CALLS]", '{"name":', "\uff5cDSML\uff5c"]
MARKUP = Markup(MARKERS)

#: Text that is full of what almost is markup.
suspicious_texts = st.lists(
    st.sampled_from([*MARKERS, "<tool", "<", "|>", "<|im_end|>", "<|x", "[TOOL", '{"na', " ", "\n", "a", "é"]),
    max_size=8,
).map("".join)


def first_marker(text: str) -> int:
    """Where the first marker of ``text`` begins, or its end."""
    found = [text.find(marker) for marker in MARKERS if marker in text]
    found += [match.start() for match in re.finditer("<[|\uff5c][^|\uff5c<>\\s]{1,40}[|\uff5c]>", text)]
    return min(found, default=len(text))


# --- The gate ----------------------------------------------------------------------------------------------------


@given(st.data(), suspicious_texts)
def test_before_the_end_only_what_stands_before_the_first_marker_is_shown(data: st.DataObject, text: str) -> None:
    """However the text is cut, what was let out is its beginning, without white space around, up to a marker at most."""
    gate = TextGate(MARKUP)
    shown = ""
    for piece in data.draw(pieces_of(text)):
        shown += gate.feed(piece)
        assert shown == shown.strip()
    certain = text[: first_marker(text)].strip()
    assert certain.startswith(shown)
    assert first_marker(text) < len(text) or len(certain) - len(shown) <= MARKUP.longest


@given(st.data(), suspicious_texts, suspicious_texts)
def test_the_joined_text_is_the_whole_text(data: st.DataObject, beginning: str, rest: str) -> None:
    """When the whole text is known and agrees with what was shown, all of it comes out, and nothing but it."""
    whole = beginning[: first_marker(beginning)] + rest
    gate = TextGate(MARKUP)
    shown = "".join(gate.feed(piece) for piece in data.draw(pieces_of(beginning)))
    assert shown + gate.settle(whole) == whole.strip()


@given(st.data(), suspicious_texts)
def test_without_a_whole_text_everything_comes_out(data: st.DataObject, text: str) -> None:
    """Where nobody can say what the markup means, the text is shown as it came, white space around it aside."""
    gate = TextGate(MARKUP)
    shown = "".join(gate.feed(piece) for piece in data.draw(pieces_of(text)))
    assert shown + gate.settle(None) == text.strip()


@pytest.mark.parametrize("marker", [*MARKERS, "<|im_end|>", "<\uff5ctool▁calls▁begin\uff5c>"])
def test_no_part_of_a_marker_is_shown(marker: str) -> None:
    """Wherever a marker is cut, none of it gets out, and all of what stands before it does."""
    for pieces in every_cut(f"Let me look. {marker}"):
        gate = TextGate(MARKUP)
        assert "".join(map(gate.feed, pieces)) == "Let me look.", pieces


@pytest.mark.parametrize(
    "text", ["a < b", "a <tool> b", "1 <| 2", "[TOOL] b", '{"nam": 1}', "<|two words|> b", "x<|>y"]
)
def test_what_turns_out_harmless_is_shown_at_once(text: str) -> None:
    """Text that only began like markup is let out as soon as it goes on differently."""
    for pieces in every_cut(text):
        gate = TextGate(MARKUP)
        assert "".join(map(gate.feed, pieces)) == text, pieces


def test_white_space_is_held_until_something_follows() -> None:
    """Leading white space never comes, white space within comes with what follows it, trailing never comes."""
    gate = TextGate(MARKUP)
    assert [gate.feed(piece) for piece in [" ", "\n a", " ", "\n", "b ", " c", "\n\n"]] == [
        *("", "a", "", "", " \nb", "  c", ""),
    ]
    assert gate.settle(None) == ""


def test_waiting() -> None:
    """After ``wait`` nothing comes of itself; ``catch_up`` gives what the text so far has before its first marker."""
    gate = TextGate(MARKUP)
    assert gate.feed("Let me") == "Let me"
    gate.wait()
    assert gate.feed(" look.") == ""
    assert gate.catch_up("Let me look. <tool_call>{}") == " look."
    assert gate.catch_up("Something else.") == ""
    assert gate.settle("Let me look.\n\nDone.\n") == "\n\nDone."


def test_a_whole_text_that_disagrees_takes_nothing_back(caplog: pytest.LogCaptureFixture) -> None:
    """What was shown stays, and nothing is added to it that would not fit; the log says so unless it is only shorter."""
    gate = TextGate(MARKUP)
    gate.feed("Before the call")
    assert gate.settle("Before") == ""
    assert gate.settle("") == ""
    assert not caplog.records
    assert gate.settle("After") == ""
    assert caplog.records


def test_a_gate_without_markup_only_minds_white_space() -> None:
    """A thought may talk about markup; it is shown as it comes."""
    gate = TextGate()
    pieces = [" I could", " write <|im_end|> or", " <tool_call> here <", " "]
    assert [gate.feed(piece) for piece in pieces] == ["I could", " write <|im_end|> or", " <tool_call> here <", ""]


@pytest.mark.parametrize("word", ["word ", "<", " <tool", '{"name', "\nx"])
def test_work_per_piece_does_not_grow(word: str) -> None:
    """A piece late in a long answer costs what an early one costs, and little is held."""
    gate = TextGate(MARKUP)
    early = max(lines_executed(lambda: gate.feed(word)) for _ in range(50))
    for _ in range(5000):
        gate.feed(word)
    assert max(lines_executed(lambda: gate.feed(word)) for _ in range(50)) <= early
    assert longest_string(gate) < 100


# --- Markup ------------------------------------------------------------------------------------------------------


@given(st.data(), suspicious_texts)
def test_the_watch_sees_a_marker_however_it_is_cut(data: st.DataObject, text: str) -> None:
    """A marker counts as soon as it is complete, and from then on."""
    watch = MarkupWatch(MARKUP)
    before = ""
    for piece in data.draw(pieces_of(text)):
        watch.feed(piece)
        before += piece
        assert watch.seen == (first_marker(before) < len(before))


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("", 0),
        ("abc", 0),
        ("abc<", 1),
        ("abc<tool_cal", 9),
        ("abc<|", 2),
        ("abc<|im_end", 8),
        ("abc<|im_end|", 9),
        ("abc<|" + "x" * 41, 0),
        ('abc{"name"', 7),
        ("abc<\n", 0),
        ("<|im<tool", 5),
    ],
)
def test_the_suspicious_tail(text: str, length: int) -> None:
    """The longest tail that may still become a marker, and no tail that cannot."""
    assert MARKUP.suspicious(text) == length


def test_markup_without_markers_still_knows_special_tokens() -> None:
    """Special tokens are no answer under any parser."""
    markup = Markup()
    assert markup.find("a<|im_end|>") == 1
    assert markup.find("a<tool_call>") == -1
    assert markup.suspicious("a<|im") == 4
