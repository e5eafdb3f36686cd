"""The tool kinds this distribution brings, one module each, registered as a plugin like any third party's."""

from __future__ import annotations

from collections.abc import Iterable

from responses_plugin.hookspecs import hookimpl
from responses_plugin.kinds.base import ToolKind
from responses_plugin.kinds.custom import CUSTOM
from responses_plugin.kinds.function import FUNCTION


@hookimpl(trylast=True)
def responses_tool_kinds() -> Iterable[ToolKind]:
    """Functions and custom tools."""
    return [FUNCTION, CUSTOM]
