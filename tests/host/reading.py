"""A client that reads a stream event by event, under a real server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx

from tests.host.scripted import SCRIPTED_MODEL
from tests.sse import StreamEvent, StreamReader, check_items

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class EventReader:
    """Reads the events of one response as they arrive."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.reader = StreamReader()
        self._pieces = response.aiter_raw()
        self._unread: list[StreamEvent] = []

    async def until(self, event_type: str) -> StreamEvent:
        """Read on up to the next event of this type."""
        while True:
            while self._unread:
                event = self._unread.pop(0)
                if event.type == event_type:
                    return event
            piece = await anext(self._pieces, None)
            assert piece is not None, f"the stream ended before {event_type}: {self.types}"
            self._unread += self.reader.feed(piece)

    async def rest(self) -> list[StreamEvent]:
        """Read to the end; all events, checked strictly."""
        async for piece in self._pieces:
            self.reader.feed(piece)
        events = self.reader.close()
        check_items(events)
        return events

    @property
    def types(self) -> list[str]:
        """The types of all events so far."""
        return [event.type for event in self.reader.events]


@asynccontextmanager
async def streaming(url: str, **body: Any) -> AsyncIterator[EventReader]:
    """Ask for a stream. Leaving the block early closes the connection, as a client does that goes away."""
    request = {"model": SCRIPTED_MODEL, "input": "hi", "stream": True, **body}
    async with (
        httpx.AsyncClient(base_url=url, timeout=20) as client,
        client.stream("POST", "/v1/responses", json=request) as response,
    ):
        assert response.status_code == 200, await response.aread()
        yield EventReader(response)
