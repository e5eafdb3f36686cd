"""openai-python as the judge of what we send: its models validated strictly, and its own stream accumulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.sse import check_items

if TYPE_CHECKING:
    from tests.sse import StreamEvent

_EVENTS: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)

#: Our event that openai-python does not know; its client ignores it.
KEEPALIVE = "keepalive"


def read_response(data: dict[str, Any]) -> Response:
    """A response object, every field checked. Its client would take anything; this raises ``ValidationError``."""
    return Response.model_validate(data)


def read_events(events: list[StreamEvent]) -> Response:
    """A whole stream, every event checked and accumulated as ``client.responses.stream`` does; the terminal response."""
    check_items(events)
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=openai.omit, text_format=openai.omit)
    snapshots: dict[tuple[str, int], str] = {}
    for event in events:
        if event.type == KEEPALIVE:
            continue
        typed = _EVENTS.validate_python(event.data)
        for accumulated in state.handle_event(typed):
            if accumulated.type == "response.output_text.delta":
                snapshots[accumulated.item_id, accumulated.content_index] = accumulated.snapshot
            elif accumulated.type == "response.output_text.done":
                snapshot = snapshots.get((accumulated.item_id, accumulated.content_index), "")
                assert snapshot == accumulated.text, "openai-python accumulates another text"
    return read_response(events[-1].data["response"])
