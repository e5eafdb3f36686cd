"""What a hook may know about the request it takes part in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from responses_plugin.lowering.template import TemplateRules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from responses_plugin.kinds.base import ToolKind
    from responses_plugin.kinds.toolset import Toolset
    from responses_plugin.lowering.part_kinds import ContentPartKind
    from responses_plugin.protocol.request import ResponsesRequest


@dataclass(frozen=True)
class EngineFacts:
    """What lowering needs to know about the engine that will answer."""

    supports_images: bool = True
    #: What its chat template accepts.
    template: TemplateRules = field(default_factory=TemplateRules)


@dataclass(frozen=True)
class RequestContext:
    """Read-only view of one request, the last argument of every per-request hook.

    ``path`` says where the item at hand stands in the body. ``toolset`` and ``engine`` are settled before the first
    item is lowered; while items are parsed they are still empty defaults.
    """

    request: ResponsesRequest
    tool_kinds: Mapping[str, ToolKind]
    content_parts: Mapping[str, ContentPartKind]
    toolset: Toolset
    engine: EngineFacts = field(default_factory=EngineFacts)
    path: str = ""

    def at(self, path: str) -> RequestContext:
        """The same context for the item at ``path``."""
        return replace(self, path=path)
