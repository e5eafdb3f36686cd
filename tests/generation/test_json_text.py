"""JSON that is read while it arrives: whatever the cuts, the result is that of the whole text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.generation import json_text
from responses_plugin.generation.json_text import ObjectScanner, SingleStringDecoder, unwrap_single_string
from tests.generation.cuts import every_cut, pieces_of
from tests.generation.effort import lines_executed

if TYPE_CHECKING:
    from collections.abc import Iterable

PATCH = '*** Begin Patch\n*** Add File: a\\b "c".txt\n+\tcafé 😀 \u2028 {x: [1]}\n*** End Patch'

#: Characters and, for each, the ways in which JSON may spell it inside a string.
_SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def spellings(char: str) -> list[str]:
    """All the ways to write one character in a JSON string."""
    units = char.encode("utf-16-be", "surrogatepass")
    escape = "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
    ways = [escape, escape.upper().replace("\\U", "\\u")]
    if char in _SHORT:
        ways.append(_SHORT[char])
    if char not in '"\\' and not "\x00" <= char <= "\x1f" and not "\ud800" <= char <= "\udfff":
        ways.append(char)
    return ways


texts = st.text(st.characters() | st.sampled_from('"\\/\n\t{}[]😀é\x7f\u2028'), max_size=20)
spaces = st.text(" \t\n\r", max_size=2)


@st.composite
def json_strings(draw: st.DrawFn, text: str | None = None) -> str:
    """A JSON string in any of its spellings, unpaired surrogates among them."""
    if text is None:
        text = draw(st.lists(st.characters() | st.sampled_from("\ud83d\ude00\udfff"), max_size=12).map("".join))
    return '"' + "".join(draw(st.sampled_from(spellings(char))) for char in text) + '"'


@st.composite
def single_string_objects(draw: st.DrawFn) -> str:
    """An arguments object with one string property, in any spelling."""
    space = [draw(spaces) for _ in range(6)]
    name, value = draw(json_strings()), draw(json_strings())
    return f"{space[0]}{{{space[1]}{name}{space[2]}:{space[3]}{value}{space[4]}}}{space[5]}"


def stream(pieces: Iterable[str]) -> tuple[str, str]:
    """What was streamed, and the final payload."""
    decoder = SingleStringDecoder()
    streamed = "".join(decoder.feed(piece) for piece in pieces)
    return streamed, decoder.finish()


# --- The payload of a custom call --------------------------------------------------------------------------------


@given(st.data(), single_string_objects())
def test_a_well_formed_payload_is_streamed_as_it_ends(data: st.DataObject, arguments: str) -> None:
    """Whatever the cuts and the spelling, the joined deltas are the final payload, which is the value itself."""
    (value,) = json.loads(arguments).values()
    streamed, payload = stream(data.draw(pieces_of(arguments)))
    assert streamed == payload == unwrap_single_string(arguments)
    assert payload == value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("name", ["input", "patch", 'ein "Name" \\ mit 😀', ""])
def test_every_cut_of_a_patch(name: str, ascii_only: bool) -> None:
    """A patch arrives whole wherever its JSON is cut, under any property name, raw or escaped."""
    arguments = json.dumps({name: PATCH}, ensure_ascii=ascii_only)
    for pieces in every_cut(arguments):
        assert stream(pieces) == (PATCH, PATCH), pieces


def test_the_payload_is_streamed_as_early_as_it_is_certain() -> None:
    """A character is given with the piece that completes it, not later."""
    decoder = SingleStringDecoder()
    given = [decoder.feed(char) for char in '{"i": "a\\n\\u00e9\\ud83d\\ude00b"}']
    text = [(index, piece) for index, piece in enumerate(given) if piece]
    assert text == [(7, "a"), (9, "\n"), (15, "é"), (27, "😀"), (28, "b")]


@pytest.mark.parametrize(
    ("escaped", "shown"),
    [
        ("\\ud83d", "\ufffd"),
        ("\\ude00", "\ufffd"),
        ("\\ude00\\ud83d", "\ufffd\ufffd"),
        ("\\ud83dx", "\ufffdx"),
        ("\\ud83d\\n", "\ufffd\n"),
        ("\\ud83d\\u0041", "\ufffdA"),
        ("\\ud83d\\ud83d\\ude00", "\ufffd😀"),
    ],
)
def test_half_a_surrogate_pair_becomes_a_replacement_character(escaped: str, shown: str) -> None:
    """What nothing could encode is not passed on, a pair next to it is not torn apart, and cuts do not matter."""
    for pieces in every_cut(f'{{"input": "{escaped}"}}'):
        assert stream(pieces) == (shown, shown), pieces


@pytest.mark.parametrize("arguments", ["{}", "", " ", "\n{ }\n", "{\n}"])
def test_an_empty_object_is_an_empty_input(arguments: str) -> None:
    """A tool called without anything gets an empty input."""
    assert stream([arguments]) == ("", "")


@pytest.mark.parametrize(
    "arguments",
    [
        '{"input": "a", "other": "b"}',
        '{"input": "a", "input": "b"}',
        '{"other": 1, "input": "a"}',
        '{"input": 1}',
        '{"input": null}',
        '{"input": true}',
        '{"input": ["a"]}',
        '{"input": {"input": "a"}}',
        '["a"]',
        '[["input", "a"]]',
        '"a"',
        "1",
        "null",
        '{"input": "a"',
        '{"input": "a',
        '{"input": "a"}}',
        '{"input": "a"} and more',
        '{"input": "a\nb"}',
        '{"input": "a\\x"}',
        '{"input": "a\\ud83d\\uZZ"}',
        '{"input\\x": "a"}',
        "{'input': 'a'}",
        '{\u00a0"input": "a"}',
        '{input: "a"}',
        "*** Begin Patch\n*** End Patch",
        "{",
        '{"',
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
    ids=lambda arguments: arguments[:30],
)
def test_the_ambiguous_and_the_malformed_are_kept_verbatim(arguments: str) -> None:
    """Anything but one string property is the input exactly as the model wrote it."""
    assert unwrap_single_string(arguments) == arguments
    assert stream(arguments)[1] == arguments


@given(st.data(), st.text(max_size=20) | st.text('{}[]":,\\u0n ', max_size=20))
def test_cuts_never_change_the_payload(data: st.DataObject, arguments: str) -> None:
    """Whatever text the model wrote, the final payload is that of the whole text."""
    assert stream(data.draw(pieces_of(arguments)))[1] == unwrap_single_string(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"input": "' + "patch \\n" * 5000 + '"}',
        '{"' + "long name " * 5000,
        " " * 50_000,
        "bare text " * 5000,
        '{"input": "a\\x' + "b" * 50_000,
        '{"input": "a", "b": "' + "c" * 50_000,
        '{"input": "\\ud83d\\uZ' + "b" * 50_000,
    ],
    ids=["well-formed", "name", "white space", "bare text", "bad escape", "ambiguous", "bad surrogate"],
)
def test_the_decoders_work_is_proportional_to_the_text(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One character at a time, no part of the text is looked at again and again."""
    looked_at = 0

    class Counting:
        def __init__(self, pattern: str) -> None:
            self._pattern = getattr(json_text, pattern)
            monkeypatch.setattr(json_text, pattern, self)

        def match(self, text: str) -> object:
            nonlocal looked_at
            looked_at += len(text)
            return self._pattern.match(text)

    Counting("_OPENING")
    Counting("_WHOLE")
    decoder = SingleStringDecoder()
    for char in arguments:
        decoder.feed(char)
    assert looked_at < 15 * len(arguments)
    assert len(decoder._rest) < 1100


# --- The end of an object ----------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.data(),
    spaces,
    st.dictionaries(texts, json_values, max_size=3),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.sampled_from(["", "\n", "}", "</tool_call>", '{"a": 1}', '"', "\\"]),
)
def test_an_object_ends_with_its_closing_brace(
    data: st.DataObject, before: str, value: dict[str, object], indent: int | None, ascii_only: bool, after: str
) -> None:
    """However it is cut, exactly the object is taken: the white space before it, and nothing after it."""
    text = before + json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    scanner = ObjectScanner()
    taken = ""
    for piece in data.draw(pieces_of(text + after)):
        assert scanner.complete == (taken == text)
        taken += scanner.feed(piece)
    assert scanner.complete
    assert taken == text


def test_every_cut_of_a_patch_object() -> None:
    """Braces, quotes and backslashes inside strings close nothing."""
    text = json.dumps({"input": PATCH, "more": ["}", "\\", {"]": '"'}]})
    for pieces in every_cut(text):
        scanner = ObjectScanner()
        assert [scanner.feed(piece) for piece in pieces] == pieces
        assert scanner.complete


@pytest.mark.parametrize("text", ["", " ", "*** Begin {Patch}\n", '"a"', "[1]", "null", "}", "{", '{"a": "}', '{"\\'])
def test_what_is_no_whole_object_has_no_end(text: str) -> None:
    """Bare text is never taken for complete, whatever braces it holds; neither is an object that was cut off."""
    for pieces in every_cut(text):
        scanner = ObjectScanner()
        assert [scanner.feed(piece) for piece in pieces] == pieces
        assert not scanner.complete


@pytest.mark.parametrize("text", ['{"a": "' + "x" * 3000, '{"a": [' + "{}," * 1000, "x" * 3000])
def test_the_scanners_work_is_proportional_to_the_text(text: str) -> None:
    """The last character of a long text costs what an early one costs."""
    scanner = ObjectScanner()
    effort = [lines_executed(lambda char=char: scanner.feed(char)) for char in text[:3000]]  # type: ignore[misc]
    assert max(effort[-100:]) <= max(effort[:100]) + 5
