"""Server-sent events: one event, one write.

Line ends are LF: readers that split on them see nothing in a CRLF stream.
"""

from __future__ import annotations

from pydantic_core import to_json

from responses_plugin.protocol.response import Wire

#: Keeps proxies from buffering; the content type is given separately.
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
MEDIA_TYPE = "text/event-stream"
#: A sign of life that is no event: readers skip it.
KEEPALIVE_COMMENT = b": keepalive\n\n"


def encode_event(event: Wire) -> bytes:
    """``event:``, ``data:`` and the blank line that ends the event."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), to_json(event, inf_nan_mode="null"))
