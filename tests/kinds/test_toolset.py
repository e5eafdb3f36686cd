"""The tools of one request: names the host takes, the tools on offer, and what ``tool_choice`` leaves of them."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.kinds import toolset as toolset_module
from responses_plugin.kinds.toolset import Choice, Toolset, host_name, parse_tools
from responses_plugin.protocol.errors import RequestError
from tests.reading import BUILTIN

#: What the host's ToolDefinition takes for a function name.
HOST_RULE = re.compile(r"[A-Za-z0-9_-]{1,64}")

names = st.text(max_size=80) | st.from_regex(HOST_RULE, fullmatch=True) | st.text("ab._/:", min_size=1, max_size=70)


def tools(*raw: Any) -> Toolset:
    return parse_tools(raw, BUILTIN.tool_kinds)


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **fields}


LOOK = function("look")
RUN = {"type": "custom", "name": "run"}
SEARCH = {"type": "web_search"}


# --- Names ----------------------------------------------------------------------------------------------------------


@given(names)
def test_a_mapped_name_fits_the_hosts_rule(name: str) -> None:
    """Whatever a client calls its tool, the host can take the name the model sees."""
    assert HOST_RULE.fullmatch(host_name(name))


@given(names)
def test_a_mapped_name_is_mapped_to_itself(name: str) -> None:
    """A name that the host takes stays as it is, so mapping is stable."""
    assert host_name(host_name(name)) == host_name(name)
    if HOST_RULE.fullmatch(name):
        assert host_name(name) == name


@given(st.lists(names, unique=True, max_size=30))
def test_different_names_are_mapped_apart(several: list[str]) -> None:
    """Two tools never become one."""
    assert len({host_name(name) for name in several}) == len(several)


def test_names_are_mapped_the_same_in_every_process() -> None:
    """A conversation outlives the server that began it."""
    assert host_name("files.list") == "files_list_7e7aa135"
    assert host_name("é" * 70) == "_" * 55 + "_78dcf717"


# --- On offer -------------------------------------------------------------------------------------------------------


def test_tools_are_offered_in_the_order_they_were_declared() -> None:
    """Custom tools and functions alike, under names that the host takes; the model's name leads back to the tool."""
    offered = tools(function("files.list"), RUN, LOOK)
    assert [tool["function"]["name"] for tool in offered.chat_tools()] == [host_name("files.list"), "run", "look"]
    bound = offered.find_shown(host_name("files.list"))
    assert bound is not None
    assert (bound.function.name, bound.kind.type) == ("files.list", "function")
    assert offered.find_shown("files.list") is bound, "models also write the name as the client gave it"


@pytest.mark.parametrize("parameters", [{}, {"parameters": None}, {"parameters": {}}])
def test_a_tool_without_parameters_gets_an_empty_schema(parameters: dict[str, Any]) -> None:
    """Templates iterate the properties, so there have to be some."""
    (tool,) = tools({**LOOK, **parameters, "strict": None}).chat_tools()
    assert tool["function"]["parameters"] == {"type": "object", "properties": {}}
    assert tool["function"]["description"] == ""


def test_a_schema_stays_as_it_is() -> None:
    """Nulls, odd keywords and references in it are the client's business."""
    schema = {"type": "object", "properties": {"a": {"enum": [None, 1], "default": None}}, "$defs": {"x": None}}
    assert tools({**LOOK, "parameters": schema}).chat_tools()[0]["function"]["parameters"] == schema


def test_tools_of_unknown_type_are_accepted_and_not_offered(caplog: pytest.LogCaptureFixture) -> None:
    """Clients declare hosted tools along with their own. They are logged once, not with each request."""
    toolset_module._log_once.cache_clear()
    with caplog.at_level(logging.WARNING, "responses_plugin"):
        for _ in range(2):
            offered = tools(SEARCH, LOOK, {"type": "namespace", "name": "n", "tools": []}, SEARCH)
    assert [bound.function.name for bound in offered.functions] == ["look"]
    assert offered.unavailable == ["web_search", "namespace", "web_search"]
    assert [record.args for record in caplog.records] == [("web_search",), ("namespace",)]


def test_a_second_tool_of_one_name_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """The model could not tell them apart; the log says which one was left out."""
    with caplog.at_level(logging.WARNING, "responses_plugin"):
        offered = tools(function("run", description="first"), RUN)
    assert [bound.function.description for bound in offered.functions] == ["first"]
    assert "tools[1]: a second tool named 'run'" in caplog.text


@pytest.mark.parametrize(
    ("raw", "param", "code"),
    [
        (5, "tools[1]", "invalid_type"),
        (None, "tools[1]", "invalid_type"),
        ({}, "tools[1].type", "missing_required_parameter"),
        ({"type": []}, "tools[1].type", "invalid_type"),
        ({"type": "function"}, "tools[1].name", "missing_required_parameter"),
        ({"type": "function", "function": {"name": "chat_form"}}, "tools[1].name", "missing_required_parameter"),
        ({"type": "function", "name": ""}, "tools[1].name", "invalid_value"),
        ({"type": "function", "name": 5}, "tools[1].name", "invalid_type"),
        ({**LOOK, "parameters": []}, "tools[1].parameters", "invalid_type"),
        ({**LOOK, "strict": "yes"}, "tools[1].strict", "invalid_type"),
        ({**RUN, "format": "text"}, "tools[1].format", "invalid_type"),
        ({**RUN, "format": {"type": "grammar", "syntax": "bnf"}}, "tools[1].format.syntax", "invalid_value"),
    ],
)
def test_a_bad_declaration_is_named(raw: Any, param: str, code: str) -> None:
    """The error says which tool and which field."""
    with pytest.raises(RequestError) as caught:
        tools(LOOK, raw)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, param, code)


# --- Choice ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_modes_are_the_hosts_own(choice: str) -> None:
    """They mean the same to both."""
    made = tools(LOOK, RUN).choose(choice)
    assert made == Choice(choice)
    assert made.permits(None), "the client is told what the model made up"


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "function", "name": "files.list"}, host_name("files.list")),
        ({"type": "custom", "name": "run"}, "run"),
        ({"type": "custom", "name": "run", "extra": None}, "run"),
    ],
)
def test_one_tool_is_chosen_by_type_and_name(choice: dict[str, Any], name: str) -> None:
    """In the flat form of the protocol; the host is told the name that the model sees."""
    offered = tools(function("files.list"), RUN, LOOK)
    made = offered.choose(choice)
    assert made.chat == {"type": "function", "function": {"name": name}}
    assert [bound.shown_as for bound in offered.functions if made.permits(bound)] == [name]


def test_allowed_tools_leave_only_those() -> None:
    """The rest stays on offer and cannot be called; what was declared and cannot be offered is not an error here either."""
    offered = tools(LOOK, RUN, function("other"), SEARCH)
    named = [RUN, {"type": "function", "name": "look"}, SEARCH]
    for mode in ("auto", "required"):
        choice = offered.choose({"type": "allowed_tools", "mode": mode, "tools": named})
        assert choice == Choice("auto", ["look", "run"], told=True, required=mode == "required")
        assert [choice.permits(bound) for bound in offered.functions] == [True, True, False]
        assert not choice.permits(None)
    assert offered.choose({"type": "allowed_tools", "tools": [SEARCH]}) == Choice("none")


def test_a_tool_may_be_allowed_before_it_is_found() -> None:
    """Clients allow the same tools with every request."""
    later = function("later", defer_loading=True)
    search = {"type": "tool_search", "execution": "client"}
    allowed = {"type": "allowed_tools", "tools": [later, search]}
    assert tools(LOOK, later, search).choose(allowed).only == ["tool_search"]
    assert tools(LOOK, later, search, function("later")).choose(allowed).only == ["tool_search", "later"]
    with pytest.raises(RequestError, match="no tool 'later'"):
        tools(LOOK, later, search).choose(later)


@pytest.mark.parametrize(
    ("choice", "param", "code"),
    [
        ("sometimes", "tool_choice", "invalid_value"),
        ({}, "tool_choice.type", "missing_required_parameter"),
        ({"type": 5}, "tool_choice.type", "invalid_type"),
        ({"type": "function"}, "tool_choice.name", "missing_required_parameter"),
        ({"type": "function", "name": None}, "tool_choice.name", "missing_required_parameter"),
        ({"type": "function", "function": {"name": "look"}}, "tool_choice.name", "missing_required_parameter"),
        ({"type": "function", "name": 5}, "tool_choice.name", "invalid_type"),
        ({"type": "function", "name": "nobody"}, "tool_choice", "invalid_value"),
        ({"type": "custom", "name": "look"}, "tool_choice", "invalid_value"),
        ({"type": "web_search"}, "tool_choice", "invalid_value"),
        ({"type": "martian"}, "tool_choice", "invalid_value"),
        ({"type": "allowed_tools", "tools": 5}, "tool_choice.tools", "invalid_type"),
        ({"type": "allowed_tools", "tools": [5]}, "tool_choice.tools[0]", "invalid_type"),
        ({"type": "allowed_tools", "mode": "none", "tools": [LOOK]}, "tool_choice.mode", "invalid_value"),
        (
            {"type": "allowed_tools", "tools": [LOOK, {"type": "custom"}]},
            "tool_choice.tools[1].name",
            "missing_required_parameter",
        ),
        ({"type": "allowed_tools", "tools": [{"type": "custom", "name": "nobody"}]}, "tool_choice", "invalid_value"),
        ({"type": "allowed_tools", "mode": "required", "tools": [SEARCH]}, "tool_choice", "invalid_value"),
    ],
)
def test_a_bad_choice_is_named(choice: Any, param: str, code: str) -> None:
    """A tool nobody declared, a form that is incomplete, one that this server cannot honour: each is a 400."""
    with pytest.raises(RequestError) as caught:
        tools(LOOK, RUN, SEARCH).choose(choice)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, param, code)


def test_required_needs_a_tool() -> None:
    """The model cannot call what it is not offered."""
    with pytest.raises(RequestError, match="'required' needs at least one tool"):
        tools(SEARCH).choose("required")
