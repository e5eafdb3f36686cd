"""``tool_search``: the model looks for tools that were not put before it, and the client answers with some.

Only a search that the client executes is offered. Without one, tools that a client wants deferred are offered at
once: nobody could find them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.kinds.structured import as_arguments, object_item
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.tools import Tool

_NAME = "tool_search"
_PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should be able to do."}},
    "required": ["query"],
}


class ToolSearchTool(Tool):
    type: Literal["tool_search"]
    execution: str = "server"
    description: str | None = None
    parameters: dict[str, Any] | None = None


#: Hosted searches have no id; calls and outputs that share one are paired in order.
_ANY_SEARCH = "call_tool_search"


class ToolSearchCall(ToolCall):
    """``arguments`` is an object here, not its text."""

    call_id: str = _ANY_SEARCH
    type: Literal["tool_search_call"]
    arguments: dict[str, Any] = {}


class ToolSearchOutput(ToolOutput):
    """The tools found, as full declarations; they can be called from here on, so they are deferred no longer."""

    call_id: str = _ANY_SEARCH
    type: Literal["tool_search_output"]
    tools: list[Any] = []

    def declared_tools(self) -> list[Any]:
        return [_found(tool) for tool in self.tools]


def _found(tool: Any) -> Any:
    """The tool and, if it is a group, its members, without the wish to be found first."""
    if not isinstance(tool, dict):
        return tool
    found = {key: value for key, value in tool.items() if key != "defer_loading"}
    if isinstance(members := tool.get("tools"), list):
        found["tools"] = [_found(member) for member in members]
    return found


def _functions(tool: ToolSearchTool) -> Iterable[Function]:
    if tool.execution != "client":
        return []
    description = tool.description or "Search for tools that are not listed here."
    return [Function(name=_NAME, description=description, parameters=tool.parameters or _PARAMETERS)]


def _arguments(text: str) -> dict[str, Any]:
    arguments = json.loads(text)
    if not isinstance(arguments, dict):
        raise ValueError("the arguments of a search are an object")  # noqa: TRY004 - for build, any bad text is alike
    return arguments


def _history_call(call: ToolSearchCall) -> tuple[str, str]:
    return _NAME, as_arguments(call.arguments)


def _history_output(output: ToolSearchOutput) -> str:
    names = [name for tool in output.tools for name in _names(tool)]
    return f"Found: {', '.join(names)}" if names else "No tools found."


def _names(tool: Any) -> list[str]:
    if not isinstance(tool, dict):
        return []
    members = tool.get("tools")
    if isinstance(members, list):
        return [f"{tool.get('name')}.{name}" for member in members for name in _names(member)]
    return [str(tool.get("name", tool.get("type")))]


TOOL_SEARCH = ToolKind(
    type="tool_search",
    tool=ToolSearchTool,
    functions=_functions,
    call=ToolSearchCall,
    output=ToolSearchOutput,
    history_call=_history_call,
    history_output=_history_output,
    output_item=object_item("tool_search_call", "tsc", "arguments", _arguments, execution="client"),
)
