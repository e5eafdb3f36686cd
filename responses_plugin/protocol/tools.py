"""Tool declarations and tool choice, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from responses_plugin.protocol.wire import WireModel


class Tool(WireModel):
    """One declared tool; the base of every kind and the form of one this server does not offer to the model."""

    type: str


class FunctionTool(Tool):
    """A function with JSON arguments."""

    type: Literal["function"] = "function"
    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool = False


class CustomFormat(WireModel):
    """What the input of a custom tool looks like: free text, or text of a grammar."""

    type: Literal["text", "grammar"] = "text"
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None


class CustomTool(Tool):
    """A tool whose input is free text."""

    type: Literal["custom"] = "custom"
    name: str = Field(min_length=1)
    description: str | None = None
    format: CustomFormat = CustomFormat()
    defer_loading: bool = False


class ToolChoice(WireModel):
    """``tool_choice`` in its object forms; the string forms are modes."""

    type: str
    name: str | None = None
    namespace: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[Any] = []
