"""Functions: JSON arguments in, JSON arguments out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from responses_plugin.generation.items import OutputItemKind, VerbatimDecoder
from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.tools import FunctionTool


class FunctionCall(ToolCall):
    type: Literal["function_call"]
    name: str
    namespace: str | None = None
    arguments: str = ""


class FunctionCallOutput(ToolOutput):
    type: Literal["function_call_output"]


def _functions(tool: FunctionTool) -> Iterable[Function]:
    return [
        Function(name=tool.name, description=tool.description, parameters=tool.parameters, deferred=tool.defer_loading)
    ]


def _history_call(call: FunctionCall) -> tuple[str, str]:
    return call.name, call.arguments


FUNCTION = ToolKind(
    type="function",
    tool=FunctionTool,
    call=FunctionCall,
    output=FunctionCallOutput,
    functions=_functions,
    history_call=_history_call,
    output_item=OutputItemKind(
        type="function_call",
        id_prefix="fc",
        payload="arguments",
        decoder=VerbatimDecoder,
        delta_event="response.function_call_arguments.delta",
        done_event="response.function_call_arguments.done",
    ),
)
