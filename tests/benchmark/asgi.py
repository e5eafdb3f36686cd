"""A client in the process of the app: no sockets, no parsing of HTTP, and only as much work as counting bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from typing import Any

from tests.benchmark.exchange import Exchange, Request

#: In what pieces uvicorn hands a body to the app.
_CHUNK_BYTES = 64 * 1024


async def call(app: Any, request: Request) -> Exchange:
    """Send one request and take in the answer."""
    chunks = _chunks(request.body)
    answered = asyncio.Event()
    loop = asyncio.get_running_loop()
    started = loop.time()
    exchange = Exchange()

    async def receive() -> dict[str, Any]:
        for chunk, is_last in chunks:
            return {"type": "http.request", "body": chunk, "more_body": not is_last}
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
        elif body := message.get("body"):
            if not exchange.size:
                exchange.first_byte_seconds = loop.time() - started
            exchange.take(body)

    await app(_scope(request), receive, send)
    answered.set()
    exchange.seconds = loop.time() - started
    return exchange


def _chunks(body: bytes) -> Iterator[tuple[bytes, bool]]:
    """The pieces of a body, and whether each is the last; an empty body is one empty piece."""
    for start in range(0, max(len(body), 1), _CHUNK_BYTES):
        yield body[start : start + _CHUNK_BYTES], start + _CHUNK_BYTES >= len(body)


def _scope(request: Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"host"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
