"""The events of a stream, as the code has them."""

from __future__ import annotations

import inspect
import re

from responses_plugin.plugins import load_plugins
from responses_plugin.protocol import events


def sent_events() -> set[str]:
    """The type of each event that the server can send, by the protocol and by the built-in tool kinds."""
    source = inspect.getsource(events)
    types = set(re.findall(r"\"(response\.[a-z_.]+|keepalive|error)\"", source)) | {
        "response.created",
        "response.in_progress",
    }
    for kind in load_plugins(discover=False).tool_kinds.values():
        if kind.output_item is None:
            continue
        types |= {event for event in (kind.output_item.delta_event, kind.output_item.done_event) if event}
    return types
