"""Namespaces: groups of functions and custom tools, such as the tools of one MCP server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, SerializeAsAny
from typing_extensions import Self

from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.kinds.custom import CUSTOM
from responses_plugin.kinds.function import FUNCTION
from responses_plugin.protocol.tools import Tool
from responses_plugin.protocol.wire import require_object

_MEMBERS = {kind.type: kind for kind in (FUNCTION, CUSTOM)}


class NamespaceTool(Tool):
    """``description`` is about the group; each member has its own. Members of other kinds are not offered."""

    type: Literal["namespace"]
    name: str = Field(min_length=1)
    description: str | None = None
    tools: list[SerializeAsAny[Tool]] = []

    @classmethod
    def parse(cls, data: Any, path: str) -> Self:
        """Each member is parsed as what it is, at its place."""
        members = require_object(data, path).get("tools")
        if isinstance(members, list):
            parsed = [_parse_member(member, f"{path}.tools[{index}]") for index, member in enumerate(members)]
            data = {**data, "tools": parsed}
        return super().parse(data, path)


def _parse_member(raw: Any, path: str) -> Tool:
    member = Tool.parse(require_object(raw, path), path)
    kind = _MEMBERS.get(member.type)
    return kind.tool.parse(raw, path) if kind else member


def _functions(tool: NamespaceTool) -> Iterable[Function]:
    """The members; the first of them says what the group is about, once for all."""
    about = f"[{tool.name}] {tool.description}\n\n" if tool.description else ""
    for member in tool.tools:
        if kind := _MEMBERS.get(member.type):
            for function in kind.functions(member):
                description = f"{about}{function.description or ''}"
                yield replace(function, description=description, namespace=tool.name, kind=kind)
                about = ""


NAMESPACE = ToolKind(type="namespace", tool=NamespaceTool, functions=_functions)
