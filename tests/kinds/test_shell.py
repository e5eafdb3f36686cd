"""Shells that the client runs: what the model is offered, what it reads, and what becomes of its calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from responses_plugin.kinds.shell import LOCAL_SHELL, SHELL
from responses_plugin.kinds.toolset import parse_tools
from tests.reading import BUILTIN, lower, read_item, refusal

CALL = {
    "type": "shell_call",
    "call_id": "c",
    "action": {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": 100},
}
RESULTS: list[dict[str, Any]] = [
    {"stdout": "a.txt\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
    {"stdout": "", "stderr": "stuck\n", "outcome": {"type": "timeout"}, "more": 1},
]
OUTPUT = {"type": "shell_call_output", "call_id": "c", "output": RESULTS}


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ["shell"]),
        ({"environment": {"type": "local"}}, ["shell"]),
        ({"environment": {"type": "container_auto"}}, []),
    ],
)
def test_a_shell_is_offered_where_the_client_runs_it(environment: dict[str, Any], names: list[str]) -> None:
    """A container at OpenAI's is none that this server has."""
    offered = parse_tools([{"type": "shell", **environment}], BUILTIN.tool_kinds)
    assert [bound.shown_as for bound in offered.functions] == names
    assert offered.unavailable == ([] if names else ["shell"])


def test_an_exchange_in_the_history_reads_like_a_terminal() -> None:
    """The call with the arguments that the model wrote, then what each command printed and how it ended."""
    made, result = lower([CALL, OUTPUT])
    function = made["tool_calls"][0]["function"]
    assert function["name"] == "shell"
    assert json.loads(function["arguments"]) == {"commands": ["ls", "pwd"], "max_output_length": 100}
    assert result == {"role": "tool", "tool_call_id": "c", "content": "a.txt\n[exit code 0]\nstuck\n[timed out]"}


@pytest.mark.parametrize("value", ["", "plain text", None])
def test_an_output_may_be_text(value: str | None) -> None:
    """Some clients send what the terminal showed."""
    assert lower([CALL, {**OUTPUT, "output": value}])[1]["content"] == (value or "")


def test_results_survive_storage() -> None:
    """They are kept where they were sent, unknown fields included."""
    assert read_item(OUTPUT).wire() == OUTPUT
    assert read_item(read_item(OUTPUT).wire()) == read_item(OUTPUT)


@pytest.mark.parametrize(
    ("output", "param"),
    [
        ({"a": 1}, "output"),
        ([5], "output[0]"),
        ([{}, {"stdout": 5}], "output[1].stdout"),
        ([{"outcome": 5}], "output[0].outcome"),
    ],
)
def test_a_bad_result_is_named(output: Any, param: str) -> None:
    """By its place in the item that the client sent."""
    error = refusal({"model": "m", "input": [CALL, {**OUTPUT, "output": output}]})
    assert (error.param, error.code) == (f"input[1].{param}", "invalid_type")


def test_a_generated_call_becomes_an_action() -> None:
    """An object with all the fields that clients expect; whatever is no action is an error for the builder to handle."""
    assert SHELL.output_item
    assert SHELL.output_item.build('{"commands": ["ls"]}') == {
        "commands": ["ls"],
        "timeout_ms": None,
        "max_output_length": None,
    }
    assert SHELL.output_item.build('{"commands": "ls"}')["commands"] == ["ls"], "one command needs no list"
    for broken in ('{"commands": 5}', "{}", "ls", '{"commands": ['):
        with pytest.raises(ValueError, match="validation error"):
            SHELL.output_item.build(broken)


def test_a_local_shell_runs_one_command() -> None:
    """Its call holds program and arguments, its output is named by the call's id, whichever field that is in."""
    assert LOCAL_SHELL.output_item
    action = LOCAL_SHELL.output_item.build('{"command": ["ls", "-l"]}')
    assert action == {"type": "exec", "command": ["ls", "-l"], "env": {}}
    item = {"type": "local_shell_call", "call_id": "c", "action": action}
    for named in ({"call_id": "c"}, {"id": "c"}):
        made, result = lower([item, {"type": "local_shell_call_output", **named, "output": "a.txt"}])
        assert json.loads(made["tool_calls"][0]["function"]["arguments"]) == {"command": ["ls", "-l"]}
        assert result == {"role": "tool", "tool_call_id": "c", "content": "a.txt"}
