"""``apply_patch`` of the API: one file operation a call, as an object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from responses_plugin.kinds.apply_patch import APPLY_PATCH
from responses_plugin.kinds.toolset import parse_tools
from tests.reading import BUILTIN, lower, refusal, text

UPDATE = {"type": "update_file", "path": "a.txt", "diff": "@@\n-a\n+é\n"}


def test_it_is_offered_and_chosen_without_a_name() -> None:
    """The tool has none of its own; the type says it all."""
    offered = parse_tools([{"type": "apply_patch"}], BUILTIN.tool_kinds)
    assert [bound.shown_as for bound in offered.functions] == ["apply_patch"]
    choice = offered.choose({"type": "apply_patch"})
    assert choice.chat == {"type": "function", "function": {"name": "apply_patch"}}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"output": "patched", "status": "completed"}, "completed: patched"),
        ({"output": "no such line", "status": "failed"}, "failed: no such line"),
        ({"output": None, "status": "completed"}, "completed"),
        ({"output": "patched"}, "patched"),
        ({"output": [text("patched")]}, "patched"),
        ({}, ""),
    ],
)
def test_an_exchange_in_the_history(fields: dict[str, Any], told: str) -> None:
    """The call with the operation as its arguments, and how it went."""
    call = {"type": "apply_patch_call", "call_id": "c", "operation": UPDATE, "status": "completed"}
    made, result = lower([call, {"type": "apply_patch_call_output", "call_id": "c", **fields}])
    assert json.loads(made["tool_calls"][0]["function"]["arguments"]) == UPDATE
    assert result == {"role": "tool", "tool_call_id": "c", "content": told}


def test_a_bad_operation_is_named() -> None:
    """A call that a client sends back has one."""
    for operation, code in ((None, "missing_required_parameter"), ("text", "invalid_type")):
        error = refusal({"model": "m", "input": [{"type": "apply_patch_call", "call_id": "c", "operation": operation}]})
        assert (error.param, error.code) == ("input[0].operation", code)


def test_a_generated_call_becomes_an_operation() -> None:
    """A deletion goes without a diff; whatever is no operation is an error for the builder to handle."""
    assert APPLY_PATCH.output_item
    build = APPLY_PATCH.output_item.build
    assert build(json.dumps(UPDATE)) == UPDATE
    assert build('{"type": "delete_file", "path": "a.txt"}') == {"type": "delete_file", "path": "a.txt"}
    for broken in ('{"type": "update_file", "path": "a.txt"}', '{"type": "move", "path": "a"}', "*** Begin Patch", "{"):
        with pytest.raises(ValueError, match="validation error"):
            build(broken)
