"""Namespaces: their members are offered under joined names, and mistakes in them are named by their place."""

from __future__ import annotations

from typing import Any

import pytest

from responses_plugin.kinds.toolset import parse_tools
from responses_plugin.protocol.errors import RequestError
from tests.reading import BUILTIN, call, lower, output

ADD = {
    "type": "function",
    "name": "add",
    "description": "Add.",
    "parameters": {"type": "object", "properties": {"a": {}}},
}
RUN = {"type": "custom", "name": "run"}


def namespace(*members: Any, name: str = "mcp__demo") -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": "A group.", "tools": list(members)}


def names(*raw: Any) -> list[str]:
    return [bound.shown_as for bound in parse_tools(raw, BUILTIN.tool_kinds).functions]


def test_members_are_offered_under_joined_names() -> None:
    """As what they are: functions and custom tools, each with its own description and schema."""
    offered = parse_tools([namespace(ADD, RUN, {"type": "web_search"})], BUILTIN.tool_kinds)
    assert [(bound.shown_as, bound.kind.type) for bound in offered.functions] == [
        ("mcp__demo__add", "function"),
        ("mcp__demo__run", "custom"),
    ]
    assert offered.chat_tools()[0]["function"]["parameters"] == ADD["parameters"]
    assert names(namespace(ADD, name="crm__")) == ["crm__add"]


def test_two_groups_may_have_a_member_of_one_name() -> None:
    """Also where joining gives one name twice: the model sees two names, and each leads back to its own tool."""
    assert names(namespace(ADD, name="a"), namespace(ADD, name="b"), ADD) == ["a__add", "b__add", "add"]
    clash = [namespace({**ADD, "name": "b__c"}, name="a"), namespace({**ADD, "name": "c"}, name="a__b")]
    assert len(set(names(*clash))) == 2


def test_a_call_in_the_history_goes_by_the_joined_name() -> None:
    """The name that its tool is offered under, or would be."""
    for tools in ([namespace(ADD)], []):
        item = {**call("a", "add"), "namespace": "mcp__demo"}
        (made,) = lower([item, output("a")], tools=tools)[0]["tool_calls"]
        assert made["function"]["name"] == "mcp__demo__add"


@pytest.mark.parametrize(
    ("raw", "param", "code"),
    [
        ({"type": "namespace"}, "tools[0].name", "missing_required_parameter"),
        (namespace(name=""), "tools[0].name", "invalid_value"),
        ({**namespace(), "tools": {}}, "tools[0].tools", "invalid_type"),
        (namespace(ADD, 5), "tools[0].tools[1]", "invalid_type"),
        (namespace(ADD, {}), "tools[0].tools[1].type", "missing_required_parameter"),
        (namespace(ADD, {"type": "function"}), "tools[0].tools[1].name", "missing_required_parameter"),
        (namespace(ADD, {**RUN, "format": {"type": "x"}}), "tools[0].tools[1].format.type", "invalid_value"),
    ],
)
def test_a_bad_member_is_named(raw: Any, param: str, code: str) -> None:
    """By its place in the group, and the group's in the request."""
    with pytest.raises(RequestError) as caught:
        parse_tools([raw], BUILTIN.tool_kinds)
    assert (caught.value.param, caught.value.code) == (param, code)
