"""The seam of request parsing: the default for every input item, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from responses_plugin.context import RequestContext
from responses_plugin.hookspecs import hookimpl
from responses_plugin.lowering.items import lower_item
from responses_plugin.lowering.messages import ChatMessage
from responses_plugin.parsing import parse_item
from responses_plugin.protocol.items import Item


@hookimpl(trylast=True)
def responses_parse_input_item(item: Mapping[str, Any], context: RequestContext) -> Item:
    """Accept the item as the type it names."""
    return parse_item(item, context)


@hookimpl(trylast=True)
def responses_lower_input_item(item: Item, context: RequestContext) -> list[ChatMessage]:
    """Convert the item, or keep it as text."""
    return lower_item(item, context)
