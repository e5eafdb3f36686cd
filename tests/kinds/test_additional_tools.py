"""``additional_tools``: tools that stand in the conversation instead of in ``tools``, as Codex sends them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reading import call, lower_body, output, read_item, refusal, user

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"at": {}}}}
RUN = {"type": "custom", "name": "run"}
SEARCH = {"type": "tool_search", "execution": "client"}
GROUP = {"type": "namespace", "name": "clock", "description": "Time.", "tools": [LOOK, RUN]}


def brought(*tools: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools), **fields}


def offered(*items: Any, **fields: Any) -> list[str]:
    """The names of the functions that the model is offered."""
    chat, _ = lower_body({"model": "m", "input": [user("hi"), *items], **fields})
    return [tool["function"]["name"] for tool in chat.get("tools", [])]


def test_they_are_offered_like_those_of_the_request() -> None:
    """Of every kind, without any ``tools`` beside them, and known by the names that calls in the history have."""
    assert offered(brought(LOOK, RUN, GROUP)) == ["look", "run", "clock__look", "clock__run"]
    _, messages = lower_body(
        {"model": "m", "input": [brought(GROUP), {**call("a"), "namespace": "clock"}, output("a")]}
    )
    assert messages[0]["tool_calls"][0]["function"]["name"] == "clock__look"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_they_may_stand_anywhere(place: int) -> None:
    """At the beginning, in the middle and at the end; nothing of them is shown to the model as text."""
    items: list[Any] = [user("a"), user("b")]
    items.insert(place, brought(LOOK))
    chat, messages = lower_body({"model": "m", "input": items})
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["look"]
    assert [message["content"] for message in messages] == ["a", "b"]


def test_tools_of_the_request_come_first() -> None:
    """A tool that was there before stays as it was, so that the prompt begins alike from turn to turn."""
    again = {**LOOK, "parameters": {"type": "object", "properties": {"other": {}}}}
    chat, _ = lower_body({"model": "m", "input": [user("a"), brought(again, RUN)], "tools": [LOOK]})
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["look", "run"]
    assert chat["tools"][0]["function"]["parameters"] == LOOK["parameters"]
    assert offered(brought(RUN), brought(LOOK, RUN)) == ["run", "look"]


def test_hosted_ones_are_not_offered() -> None:
    """As in ``tools``: accepted, and nothing to call."""
    assert offered(brought({"type": "web_search"}, LOOK)) == ["look"]
    assert offered(brought()) == []
    assert offered({"type": "additional_tools"}) == []


@pytest.mark.parametrize("place", ["request", "item"])
@pytest.mark.parametrize("member", [False, True])
def test_deferred_ones_wait_until_they_are_found(place: str, *, member: bool) -> None:
    """They are declared, not found: wherever they and the search stand, and in a group as well."""
    later = {**LOOK, "defer_loading": True}
    deferred = {**GROUP, "tools": [later, RUN]} if member else later
    declared: Any = [deferred, RUN, SEARCH]
    items, fields = ([], {"tools": declared}) if place == "request" else ([brought(*declared)], {})
    name, others = ("clock__look", ["clock__run"]) if member else ("look", [])
    before = offered(*items, **fields)
    assert before == [*others, "run", "tool_search"]
    found = {"type": "tool_search_output", "call_id": "c", "tools": [deferred]}
    assert offered(*items, found, **fields) == [*before, name]
    # What is not deferred any more was found, whoever brings it.
    assert offered(*items, brought({**GROUP, "tools": [LOOK]} if member else LOOK), **fields) == [*before, name]


def test_deferred_ones_of_one_item_wait_for_a_search_of_another() -> None:
    """The conversation is looked at as a whole."""
    later = {**LOOK, "defer_loading": True}
    assert offered(brought(later), brought(SEARCH)) == ["tool_search"]
    assert offered(brought(later), brought(RUN)) == ["look", "run"], "nobody could find it"


def test_one_of_them_can_be_chosen() -> None:
    """``tool_choice`` looks at all tools of the conversation."""
    chat, _ = lower_body(
        {"model": "m", "input": [user("a"), brought(LOOK)], "tool_choice": {"type": "function", "name": "look"}}
    )
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "look"}}


def test_the_item_survives_storage() -> None:
    """Its tools are the client's, null fields included."""
    item = brought({**LOOK, "strict": None}, GROUP, id="at_1")
    assert read_item(read_item(item).wire()).declared_tools() == item["tools"]


@pytest.mark.parametrize(
    ("tools", "param", "code"),
    [
        (5, "input[1].tools", "invalid_type"),
        ([LOOK, 5], "input[1].tools[1]", "invalid_type"),
        ([{"type": "custom"}], "input[1].tools[0].name", "missing_required_parameter"),
        ([{**GROUP, "tools": [{}]}], "input[1].tools[0].tools[0].type", "missing_required_parameter"),
    ],
)
def test_a_bad_tool_is_named(tools: Any, param: str, code: str) -> None:
    """By its place in the item that brought it."""
    error = refusal({"model": "m", "input": [user("hi"), {**brought(), "tools": tools}]})
    assert (error.status, error.param, error.code) == (400, param, code)
