"""Custom tools: free text in and out, shown to the model as a function with one string parameter."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal

from responses_plugin.generation.items import OutputItemKind
from responses_plugin.generation.json_text import SingleStringDecoder
from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.tools import CustomTool

#: The one parameter of the function that stands for a custom tool.
INPUT = "input"


class CustomToolCall(ToolCall):
    type: Literal["custom_tool_call"]
    name: str
    namespace: str | None = None
    input: str = ""


class CustomToolCallOutput(ToolOutput):
    type: Literal["custom_tool_call_output"]


def _functions(tool: CustomTool) -> Iterable[Function]:
    parameters = {
        "type": "object",
        "properties": {INPUT: {"type": "string", "description": f"The raw input of {tool.name}."}},
        "required": [INPUT],
    }
    return [
        Function(name=tool.name, description=_description(tool), parameters=parameters, deferred=tool.defer_loading)
    ]


def _description(tool: CustomTool) -> str:
    """The tool's own words, and its grammar: the model has no other way to learn it."""
    text = tool.description or ""
    if tool.format.definition is not None:
        grammar = f"The value of '{INPUT}' must match this {tool.format.syntax or ''} grammar:\n"
        text = f"{text}\n\n{grammar}{tool.format.definition}".strip()
    return text


def _history_call(call: CustomToolCall) -> tuple[str, str]:
    return call.name, json.dumps({INPUT: call.input}, ensure_ascii=False)


CUSTOM = ToolKind(
    type="custom",
    tool=CustomTool,
    call=CustomToolCall,
    output=CustomToolCallOutput,
    functions=_functions,
    history_call=_history_call,
    output_item=OutputItemKind(
        type="custom_tool_call",
        id_prefix="ctc",
        payload="input",
        decoder=SingleStringDecoder,
        delta_event="response.custom_tool_call_input.delta",
        done_event="response.custom_tool_call_input.done",
    ),
)
