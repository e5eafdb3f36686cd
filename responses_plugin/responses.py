"""HTTP answers: JSON, errors, and the event stream with its keepalive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from responses_plugin.generation.builder import ResponseBuilder
from responses_plugin.generation.sse import HEADERS, KEEPALIVE_COMMENT, MEDIA_TYPE, encode_event
from responses_plugin.protocol.dialects import OPENAI, Dialect
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.response import Wire


class JsonResponse(Response):
    """A wire object as the body."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content, inf_nan_mode="null")


def error_response(error: RequestError, dialect: Dialect = OPENAI) -> JsonResponse:
    return JsonResponse(dialect.error(error.body(), error.status), status_code=error.status, headers=error.headers)


class EventStreamResponse(Response):
    """Writes the events of one answer as they come, and signs of life while none come.

    The client is watched: when it goes away the answer is cancelled, which stops generation.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        batches: AsyncGenerator[Sequence[Wire], None],
        builder: ResponseBuilder,
        keepalive_seconds: float,
        dialect: Dialect = OPENAI,
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._batches = batches
        self._builder = builder
        self._keepalive_seconds = keepalive_seconds
        self._dialect = dialect
        self._last_write = 0.0
        #: Held from numbering events to having written them, so that they leave in the order of their numbers.
        self._writing = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = asyncio.ensure_future(self._write_all(send))
        helpers = [asyncio.ensure_future(self._cancel_when_gone(receive, writer))]
        if self._keepalive_seconds > 0:
            helpers.append(asyncio.ensure_future(self._keep_alive(send)))
        try:
            await asyncio.wait([writer])
        finally:
            # One cancellation, and then time to clean up: the host gives its engine back in a finally clause.
            writer.cancel()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(writer, *helpers, return_exceptions=True)
        if not writer.cancelled():
            writer.result()

    async def _write_all(self, send: Send) -> None:
        async with aclosing(self._batches) as batches:
            # Begun before anything is sent: a generator that has not begun would let go of nothing when it is closed.
            first = await anext(batches)
            async with self._writing:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await self._write(first, send)
            async for batch in batches:
                async with self._writing:
                    await self._write(batch, send)
        await send({"type": "http.response.body", "body": self._dialect.stream_end, "more_body": False})

    async def _write(self, batch: Sequence[Wire], send: Send) -> None:
        for event in batch:
            body = encode_event(self._dialect.event(event))
            await send({"type": "http.response.body", "body": body, "more_body": True})
        self._last_write = time.monotonic()

    async def _keep_alive(self, send: Send) -> None:
        self._last_write = time.monotonic()
        while not self._builder.done:
            # While a client is slow to take what is being written it needs no sign of life; and waiting in line for
            # the lock would let events that are numbered already be overtaken.
            silent = 0.0 if self._writing.locked() else time.monotonic() - self._last_write
            if silent < self._keepalive_seconds:
                await asyncio.sleep(self._keepalive_seconds - silent)
                continue
            async with self._writing:
                if self._builder.started and not self._builder.done:
                    await self._write_keepalive(send)

    async def _write_keepalive(self, send: Send) -> None:
        if self._dialect.keepalive_is_event:
            await self._write(self._builder.keepalive(), send)
        else:
            await send({"type": "http.response.body", "body": KEEPALIVE_COMMENT, "more_body": True})
            self._last_write = time.monotonic()

    async def _cancel_when_gone(self, receive: Receive, writer: asyncio.Future[None]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        writer.cancel()
