"""The tool kinds this distribution brings, one module each, registered as a plugin like any third party's."""

from __future__ import annotations

from collections.abc import Iterable

from responses_plugin.hookspecs import hookimpl
from responses_plugin.kinds.apply_patch import APPLY_PATCH
from responses_plugin.kinds.base import ToolKind
from responses_plugin.kinds.custom import CUSTOM
from responses_plugin.kinds.function import FUNCTION
from responses_plugin.kinds.namespace import NAMESPACE
from responses_plugin.kinds.shell import LOCAL_SHELL, SHELL
from responses_plugin.kinds.tool_search import TOOL_SEARCH


@hookimpl(trylast=True)
def responses_tool_kinds() -> Iterable[ToolKind]:
    """Everything that a client can run itself."""
    return [FUNCTION, CUSTOM, NAMESPACE, TOOL_SEARCH, APPLY_PATCH, SHELL, LOCAL_SHELL]
