"""Tool calls of a chat stream, whole or in fragments, as generation events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.generation.calls import CallAssembler, complete_calls, is_whole, whole_call
from responses_plugin.generation.events import CallArguments, CallFinished, CallStarted, GenerationEvent
from tests.generation.cuts import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable


def delta(
    name: str | None = None, arguments: str | None = None, *, index: int | None = 0, id: str | None = None
) -> dict[str, Any]:
    """A ``tool_calls`` delta; what is None is left out, as hosts do."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = (("index", index), ("id", id), ("type", "function"), ("function", function))
    return {key: value for key, value in fields if value is not None}


def assemble(deltas: Iterable[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    """(name, arguments, finished) of every call."""
    assembler = CallAssembler()
    events: list[GenerationEvent] = []
    for one in deltas:
        events += assembler.feed([one])
    calls: list[tuple[str, str, bool]] = []
    for event in events:
        if isinstance(event, CallStarted):
            calls.append((event.name, "", False))
        elif isinstance(event, CallArguments):
            calls[-1] = (calls[-1][0], calls[-1][1] + event.fragment, False)
        else:
            calls[-1] = (*calls[-1][:2], True)
    assert assembler.take_names() == [name for name, _, _ in calls]
    assert assembler.take_names() == []
    assert assembler.open == bool(calls and not calls[-1][2])
    return calls


objects = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3).map(json.dumps)


@given(st.data(), st.lists(objects, max_size=4), st.booleans(), st.sampled_from(["", "\n", "</s>", "}"]))
def test_fragments_are_put_together(data: st.DataObject, calls: list[str], with_ids: bool, junk: str) -> None:
    """However calls are cut, each has its own arguments and is finished with them; what trails them is left out."""
    deltas = []
    for index, arguments in enumerate(calls):
        id = f"call_{index}" if with_ids else None
        deltas.append(delta(f"tool_{index}", "", index=index, id=id))
        deltas += [delta(arguments=piece, index=index, id=id) for piece in data.draw(pieces_of(arguments + junk))]
    assert assemble(deltas) == [(f"tool_{index}", arguments, True) for index, arguments in enumerate(calls)]


def test_whole_calls_of_one_index_are_told_apart_by_id() -> None:
    """Some parsers give every call the index 0; another id is another call."""
    deltas = [delta("a", "{}", id="call_1"), delta("a", "{}", id="call_2")]
    assert assemble(deltas) == [("a", "{}", True), ("a", "{}", True)]


def test_a_call_without_index_or_with_a_null_one() -> None:
    """The index may be missing where there is only one call."""
    assert assemble([delta("a", '{"b": ', index=None), {**delta(arguments="1}"), "index": None}]) == [
        ("a", '{"b": 1}', True)
    ]


def test_late_fragments_of_an_earlier_call_are_no_new_call() -> None:
    """A call begins with its name: what comes for a finished one without a name opens nothing and joins nothing."""
    deltas = [
        delta("a", "{}", index=0, id="call_1"),
        delta("b", '{"x": ', index=1, id="call_2"),
        delta(arguments="", index=0, id="call_1"),
        delta(arguments="}", index=0, id="call_1"),
        delta(arguments="1}", index=1, id="call_2"),
    ]
    assert assemble(deltas) == [("a", "{}", True), ("b", '{"x": 1}', True)]


def test_a_name_that_is_repeated_is_not_a_new_call() -> None:
    """Some servers send the name with every fragment."""
    assert assemble([delta("a", '{"x": ', id="call_1"), delta("a", "1}", id="call_1")]) == [("a", '{"x": 1}', True)]


def test_bare_text_ends_with_the_next_call() -> None:
    """Arguments that are no object have no visible end, whatever braces they hold."""
    deltas = [delta("a", "f(x) {return", index=0), delta(arguments="};", index=0), delta("b", "{}", index=1)]
    assert assemble(deltas) == [("a", "f(x) {return};", True), ("b", "{}", True)]


def test_an_object_that_was_cut_off_stays_open() -> None:
    """Nothing but its end, or another call, finishes a call."""
    assert assemble([delta("a", '{"x": "}')]) == [("a", '{"x": "}', False)]


def test_closing_finishes_what_is_open_once() -> None:
    """The end of a stream finishes the last call; closing again does nothing."""
    assembler = CallAssembler()
    list(assembler.feed([delta("a", "text")]))
    assert list(assembler.close()) == [CallFinished()]
    assert list(assembler.close()) == []


@pytest.mark.parametrize(
    ("arguments", "taken", "finished"),
    [
        ('{"a": 1}', '{"a": 1}', True),
        ('{"a": 1}\n</s>', '{"a": 1}', True),
        ("bare {text} here", "bare {text} here", True),
        ("", "", True),
        ('{"a": ', '{"a": ', False),
    ],
)
def test_a_whole_call(arguments: str, taken: str, finished: bool) -> None:
    """It ends where its object ends, like one in fragments; an object that was cut off is not finished."""
    end = [CallFinished()] if finished else []
    assert list(whole_call("a", arguments)) == [CallStarted("a"), CallArguments(taken), *end]


def test_which_deltas_are_whole() -> None:
    """A whole call has its name and its whole arguments object."""
    assert is_whole(delta("a", "{}"))
    assert not is_whole(delta("a", ""))
    assert not is_whole(delta("a"))
    assert not is_whole(delta("a", '{"x":'))
    assert not is_whole(delta(arguments="{}"))
    assert not is_whole({"index": 0})


def test_calls_count_up_to_the_first_that_is_not_complete() -> None:
    """A parser may report a call that is still being written."""
    calls = [("a", "{}"), ("b", '{"x'), ("c", "{}")]
    assert complete_calls(calls) == [("a", "{}")]
