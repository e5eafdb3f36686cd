"""Custom tools: free text in and out, shown to the model as a function with one string parameter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Literal

from responses_plugin.generation.items import OutputItemKind
from responses_plugin.generation.json_text import SingleStringDecoder, unwrap_single_string
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


#: A Markdown fence around everything, with none inside.
_FENCED = re.compile(r"\s*```[\w+-]*\r?\n((?:(?!```).)*?)(?:\r?\n)?```\s*", re.DOTALL)


def read_input(arguments: str) -> str:
    """The raw input inside generated arguments, without the wrapping that models put around raw text.

    Wrapping is the object once more (``{"input": …}`` as the input), or one Markdown fence around everything.
    Arguments that are not an object with one string are kept as they are.
    """
    text = unwrap_single_string(arguments)
    return text if text == arguments else _without_wrapping(text)


def _without_wrapping(text: str) -> str:
    if text.lstrip().startswith("{"):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(inner, dict) and inner.keys() == {INPUT} and isinstance(inner[INPUT], str):
            return _without_wrapping(unwrap_single_string(text))
    fenced = _FENCED.fullmatch(text)
    return fenced.group(1) if fenced else text


class RawInputDecoder:
    """Streams the raw input while its JSON is still arriving, unless it begins like wrapping."""

    def __init__(self) -> None:
        self._decoder = SingleStringDecoder()
        self._beginning = ""
        #: None until the first character that is not white space.
        self._wrapped: bool | None = None

    def feed(self, fragment: str) -> str:
        text = self._decoder.feed(fragment)
        if self._wrapped is None:
            text = self._beginning = self._beginning + text
            begun = text.lstrip()
            if not begun:
                return ""
            self._wrapped = begun[0] in "{`"
        return "" if self._wrapped else text

    def finish(self) -> str:
        return read_input(self._decoder.arguments)


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
        decoder=RawInputDecoder,
        delta_event="response.custom_tool_call_input.delta",
        done_event="response.custom_tool_call_input.done",
    ),
)
