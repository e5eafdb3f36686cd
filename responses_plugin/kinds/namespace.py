"""Namespaces: groups of functions and custom tools, such as the tools of one MCP server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.kinds.custom import CUSTOM
from responses_plugin.kinds.function import FUNCTION
from responses_plugin.protocol.tools import Tool
from responses_plugin.protocol.wire import require_object

_MEMBERS = {kind.type: kind for kind in (FUNCTION, CUSTOM)}


class NamespaceTool(Tool):
    """``description`` is about the group; each member has its own."""

    type: Literal["namespace"]
    name: str = Field(min_length=1)
    description: str | None = None
    tools: list[dict[str, Any]] = []


def _functions(tool: NamespaceTool) -> Iterable[Function]:
    for index, raw in enumerate(tool.tools):
        path = f"{tool.name}.tools[{index}]"
        kind = _MEMBERS.get(Tool.parse(require_object(raw, path), path).type)
        if kind is not None:
            for function in kind.functions(kind.tool.parse(raw, path)):
                yield replace(function, namespace=tool.name, kind=kind)


NAMESPACE = ToolKind(type="namespace", tool=NamespaceTool, functions=_functions)
