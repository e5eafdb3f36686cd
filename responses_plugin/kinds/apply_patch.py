"""``apply_patch``: file edits, one operation a call, run by the client.

Not to be confused with a *custom* tool of that name, whose input is the text of a whole patch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, model_validator
from typing_extensions import Self

from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.kinds.structured import as_arguments, object_item, read_arguments
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.tools import Tool

_NAME = "apply_patch"
_PARAMETERS = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        "path": {"type": "string", "description": "The file, relative to the workspace."},
        "diff": {
            "type": "string",
            "description": "A V4A diff: hunks that begin with @@, lines that begin with a space, - or +. For a new "
            "file every line begins with +. Left out when the file is deleted.",
        },
    },
    "required": ["type", "path"],
}


class ApplyPatchTool(Tool):
    type: Literal["apply_patch"]


class Operation(BaseModel):
    """One edit; only the deletion of a file goes without a diff."""

    type: Literal["create_file", "update_file", "delete_file"]
    path: str
    diff: str | None = None

    @model_validator(mode="after")
    def _require_diff(self) -> Self:
        if self.type != "delete_file" and self.diff is None:
            raise ValueError(f"{self.type} needs a diff")
        return self


class ApplyPatchCall(ToolCall):
    type: Literal["apply_patch_call"]
    operation: dict[str, Any]


class ApplyPatchCallOutput(ToolOutput):
    type: Literal["apply_patch_call_output"]


def _functions(_: ApplyPatchTool) -> Iterable[Function]:
    return [Function(name=_NAME, description="Create, update or delete one file.", parameters=_PARAMETERS)]


def _build(arguments: str) -> dict[str, Any]:
    operation = read_arguments(Operation, arguments)
    return operation.model_dump(exclude={"diff"} if operation.type == "delete_file" else None)


def _history_call(call: ApplyPatchCall) -> tuple[str, str]:
    return _NAME, as_arguments(call.operation)


def _history_output(output: ApplyPatchCallOutput) -> str | list[Any]:
    if isinstance(output.output, str) and output.status:
        return f"{output.status}: {output.output}" if output.output else output.status
    return output.output


APPLY_PATCH = ToolKind(
    type="apply_patch",
    tool=ApplyPatchTool,
    functions=_functions,
    call=ApplyPatchCall,
    output=ApplyPatchCallOutput,
    history_call=_history_call,
    history_output=_history_output,
    output_item=object_item("apply_patch_call", "apc", "operation", _build),
)
