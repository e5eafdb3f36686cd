"""``shell`` and its predecessor ``local_shell``: commands that the client runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, field_validator, model_validator

from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.kinds.structured import as_arguments, object_item, read_arguments
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.tools import Tool
from responses_plugin.protocol.wire import WireModel

_SHELL = "shell"
_LOCAL_SHELL = "local_shell"


class ShellTool(Tool):
    """``environment`` says where commands run; a container at OpenAI's is none that we have."""

    type: Literal["shell"]
    environment: dict[str, Any] = {"type": "local"}


class ShellAction(BaseModel):
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None

    @field_validator("commands", mode="before")
    @classmethod
    def _take_one(cls, commands: Any) -> Any:
        """Models write a single command without its list, and there is only one thing that can mean."""
        return [commands] if isinstance(commands, str) else commands


class ShellCall(ToolCall):
    type: Literal["shell_call"]
    action: dict[str, Any]


class ShellResult(WireModel):
    """What one command wrote, and how it ended."""

    stdout: str = ""
    stderr: str = ""
    outcome: dict[str, Any] = {}

    def text(self) -> str:
        """The result as a terminal would show it."""
        ending = "timed out" if self.outcome.get("type") == "timeout" else f"exit code {self.outcome.get('exit_code')}"
        return "\n".join(filter(None, [self.stdout.rstrip("\n"), self.stderr.rstrip("\n"), f"[{ending}]"]))


class ShellCallOutput(ToolOutput):
    """``output`` holds one result for each command, not content parts."""

    content_fields = ()

    type: Literal["shell_call_output"]
    output: str | list[ShellResult] = ""  # type: ignore[assignment]


def _shell_functions(tool: ShellTool) -> Iterable[Function]:
    if tool.environment.get("type", "local") != "local":
        return []
    parameters = {
        "type": "object",
        "properties": {
            "commands": {"type": "array", "items": {"type": "string"}, "description": "Commands, run one by one."},
            "timeout_ms": {"type": "integer"},
            "max_output_length": {"type": "integer"},
        },
        "required": ["commands"],
    }
    return [Function(name=_SHELL, description="Run commands in a shell.", parameters=parameters)]


def _shell_action(arguments: str) -> dict[str, Any]:
    return read_arguments(ShellAction, arguments).model_dump()


def _shell_history_call(call: ShellCall) -> tuple[str, str]:
    return _SHELL, as_arguments({key: value for key, value in call.action.items() if value is not None})


def _shell_history_output(output: ShellCallOutput) -> str | list[Any]:
    return output.output if isinstance(output.output, str) else "\n".join(result.text() for result in output.output)


SHELL = ToolKind(
    type="shell",
    tool=ShellTool,
    functions=_shell_functions,
    call=ShellCall,
    output=ShellCallOutput,
    history_call=_shell_history_call,
    history_output=_shell_history_output,
    output_item=object_item("shell_call", "sh", "action", _shell_action, environment={"type": "local"}),
)


class LocalShellTool(Tool):
    type: Literal["local_shell"]


class LocalShellAction(BaseModel):
    type: Literal["exec"] = "exec"
    command: list[str]
    env: dict[str, str] = {}
    timeout_ms: int | None = None
    working_directory: str | None = None
    user: str | None = None


class LocalShellCall(ToolCall):
    type: Literal["local_shell_call"]
    action: dict[str, Any]


class LocalShellCallOutput(ToolOutput):
    type: Literal["local_shell_call_output"]

    @model_validator(mode="before")
    @classmethod
    def _take_id(cls, data: Any) -> Any:
        """The published form names the call in ``id``, clients name it in ``call_id``."""
        if isinstance(data, dict) and data.get("call_id") is None and data.get("id") is not None:
            return {**data, "call_id": data["id"]}
        return data


def _local_shell_functions(_: LocalShellTool) -> Iterable[Function]:
    parameters = {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}, "description": "Program and arguments."},
            "working_directory": {"type": "string"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "timeout_ms": {"type": "integer"},
        },
        "required": ["command"],
    }
    return [Function(name=_LOCAL_SHELL, description="Run a command on the user's machine.", parameters=parameters)]


def _local_shell_action(arguments: str) -> dict[str, Any]:
    return read_arguments(LocalShellAction, arguments).model_dump(exclude_none=True)


def _local_shell_history_call(call: LocalShellCall) -> tuple[str, str]:
    return _LOCAL_SHELL, as_arguments({key: value for key, value in call.action.items() if key != "type" and value})


LOCAL_SHELL = ToolKind(
    type="local_shell",
    tool=LocalShellTool,
    functions=_local_shell_functions,
    call=LocalShellCall,
    output=LocalShellCallOutput,
    history_call=_local_shell_history_call,
    output_item=object_item("local_shell_call", "lsh", "action", _local_shell_action),
)
