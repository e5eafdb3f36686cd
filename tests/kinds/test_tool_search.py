"""``tool_search``: tools that the model looks for first, and what the client's answer changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from responses_plugin.kinds.tool_search import TOOL_SEARCH
from tests.reading import lower, lower_body, refusal, user

LATER = {"type": "function", "name": "later", "defer_loading": True}
NOW = {"type": "function", "name": "now"}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Find.", "parameters": {"type": "object"}}
CALL = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "é"}}
FOUND = [LATER, {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "add"}]}]
OUTPUT = {"type": "tool_search_output", "call_id": "c", "tools": FOUND}


def offered(items: list[Any], *tools: Any) -> list[str]:
    """The names of the functions that a request offers."""
    chat, _ = lower_body({"model": "m", "input": items, "tools": list(tools)})
    return [tool["function"]["name"] for tool in chat.get("tools", [])]


def test_deferred_tools_wait_until_they_are_found() -> None:
    """With a search that the client runs; what a search has found stays on offer from then on."""
    assert offered([user("hi")], LATER, NOW, SEARCH) == ["now", "tool_search"]
    assert offered([user("hi"), CALL, OUTPUT, user("?")], LATER, NOW, SEARCH) == [
        "now",
        "tool_search",
        "later",
        "crm__add",
    ]


@pytest.mark.parametrize("search", [[], [{"type": "tool_search"}], [{"type": "tool_search", "execution": "server"}]])
def test_without_a_search_nothing_waits(search: list[Any]) -> None:
    """Nobody could find a deferred tool where only OpenAI's server would search."""
    assert sorted(offered([user("hi")], LATER, NOW, *search)) == ["later", "now"]


def test_an_exchange_in_the_history() -> None:
    """The model reads what it looked for and what was found."""
    made, result = lower([CALL, OUTPUT], tools=[SEARCH])
    function = made["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == ("tool_search", {"query": "é"})
    assert result == {"role": "tool", "tool_call_id": "c", "content": "Found: later, crm.add"}
    assert lower([CALL, {**OUTPUT, "tools": []}])[1]["content"] == "No tools found."


@pytest.mark.parametrize(
    ("tools", "param", "code"),
    [
        (5, "input[1].tools", "invalid_type"),
        ([NOW, 5], "input[1].tools[1]", "invalid_type"),
        ([{"type": "function"}], "input[1].tools[0].name", "missing_required_parameter"),
        (
            [{"type": "namespace", "name": "n", "tools": [{"type": "custom"}]}],
            "input[1].tools[0].tools[0].name",
            "missing_required_parameter",
        ),
    ],
)
def test_a_bad_find_is_named(tools: Any, param: str, code: str) -> None:
    """By its place in the item that brought it."""
    error = refusal({"model": "m", "input": [CALL, {**OUTPUT, "tools": tools}]})
    assert (error.param, error.code) == (param, code)


def test_a_generated_call_holds_an_object() -> None:
    """Clients expect arguments that are parsed already."""
    assert TOOL_SEARCH.output_item
    assert TOOL_SEARCH.output_item.build('{"query": "x"}') == {"query": "x"}
    for broken in ("[]", "x", "{"):
        with pytest.raises(ValueError, match=r"object|Expecting"):
            TOOL_SEARCH.output_item.build(broken)
