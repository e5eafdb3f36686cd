"""A host that plays replies, and an app that serves the plugin's endpoints on it, for tests of the service alone.

::

    host = FakeHost(Reply("Hello."))
    async with serving(host) as client:
        answer = await client.post("/v1/responses", json={"model": "m", "input": "hi"})
    assert host.conversations == [[{"role": "user", "content": "hi"}]]
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from fastapi import FastAPI

from responses_plugin.context import EngineFacts
from responses_plugin.generation.markup import Markup
from responses_plugin.generation.reader import WholeAnswer
from responses_plugin.plugins import load_plugins
from responses_plugin.routes import endpoints
from responses_plugin.service import ResponsesService
from responses_plugin.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from fastapi import Request

    from responses_plugin.engine import ChatCall
    from responses_plugin.lowering.messages import ChatMessage
    from responses_plugin.plugins import Plugins

#: The built-in plugins alone, whatever is installed here.
BUILTIN = load_plugins(discover=False)


@dataclass
class Reply:
    """What the host does with one call."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, str]] = ()
    finish_reason: str | None = "stop"
    #: Raised instead of opening an answer.
    refusal: Exception | None = None
    #: Raised after so many chunks.
    failure: Exception | None = None
    failure_after: int = 0
    #: Raised when the answer is closed.
    closing: Exception | None = None
    #: The client is gone before the answer is there.
    gone: bool = False
    #: Waited for before the answer is opened, and before the chunk of an index.
    opening: asyncio.Event | None = None
    gates: Mapping[int, asyncio.Event] = field(default_factory=dict)

    def chunks(self) -> list[dict[str, Any]]:
        """In the chat-completions shape, a word each."""
        deltas: list[dict[str, Any]] = [{"reasoning": word} for word in _words(self.reasoning)]
        deltas += [{"content": word} for word in _words(self.text)]
        for index, (name, arguments) in enumerate(self.calls):
            function = {"name": name, "arguments": arguments}
            deltas.append({"tool_calls": [{"index": index, "id": f"call_{index}", "function": function}]})
        ends = [{"choices": [{"delta": {}, "finish_reason": self.finish_reason}]}] if self.finish_reason else []
        return [*({"choices": [{"delta": delta}]} for delta in deltas), *ends, {"choices": [], "usage": _USAGE}]


_USAGE = {"prompt_tokens": 5, "completion_tokens": 3}


def _words(text: str) -> list[str]:
    return [f"{word} " for word in text.split(" ")] if text else []


class FakeStream:
    """An answer of a :class:`FakeHost` as it comes, which knows how it was treated."""

    markup = Markup(["<tool_call>"])
    markup_seen = False
    thought_certain = True
    token_limit = None

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.cancelled = 0
        self.closed = 0

    def whole(self, *, truncated: bool, ended: bool = True) -> WholeAnswer | None:
        return None

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def __aiter__(self) -> AsyncIterator[Mapping[str, Any]]:
        try:
            for index, chunk in enumerate(self._reply.chunks()):
                if self._reply.failure and index == self._reply.failure_after:
                    raise self._reply.failure
                if gate := self._reply.gates.get(index):
                    await gate.wait()
                yield chunk
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def aclose(self) -> None:
        # As the host does: what is released is released in time, or somebody is still waiting.
        await asyncio.sleep(0)
        self.closed += 1
        if self._reply.closing is not None:
            raise self._reply.closing


class FakeCompletion:
    """A whole answer of a :class:`FakeHost`."""

    markup = Markup(["<tool_call>"])
    token_limit = None

    def __init__(self, reply: Reply) -> None:
        self.whole = WholeAnswer(reply.text, reply.reasoning, reply.calls, reply.text)
        self.finish_reason = reply.finish_reason
        self.usage = _USAGE

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class FakeHost:
    """Plays one reply a call; the last one again and again."""

    def __init__(self, *replies: Reply, supports_images: bool = True) -> None:
        self._replies = list(replies or [Reply("ok")])
        self._facts = EngineFacts(supports_images=supports_images)
        self.calls: list[ChatCall] = []
        #: The messages of each call.
        self.conversations: list[list[ChatMessage]] = []
        self.streams: list[FakeStream] = []
        self.cancelled_openings = 0

    async def complete(self, call: ChatCall, raw_request: Request) -> FakeCompletion | None:
        reply = await self._answer(call)
        return None if reply is None else FakeCompletion(reply)

    async def stream(self, call: ChatCall, raw_request: Request) -> FakeStream | None:
        reply = await self._answer(call)
        if reply is None:
            return None
        self.streams.append(FakeStream(reply))
        return self.streams[-1]

    async def _answer(self, call: ChatCall) -> Reply | None:
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        self.calls.append(call)
        self.conversations.append(call.lower(self._facts))
        try:
            if reply.opening is not None:
                await reply.opening.wait()
        except asyncio.CancelledError:
            self.cancelled_openings += 1
            raise
        if reply.refusal is not None:
            raise reply.refusal
        return None if reply.gone else reply


def new_service(host: FakeHost, *, plugins: Plugins = BUILTIN, store: Any = None, **options: Any) -> ResponsesService:
    """A service on ``host`` with a store that holds what a test needs."""
    return ResponsesService(plugins=plugins, host=host, store=store or MemoryStore(100, 1 << 20), **options)


def new_app(service: ResponsesService) -> FastAPI:
    """The endpoints in an app, as they stand in the host's."""
    app = FastAPI()
    for endpoint in endpoints(service):
        app.router.add_api_route(
            endpoint.path,
            endpoint.function,
            methods=[endpoint.method],
            response_model=None,
            route_class_override=endpoint.route_class,
        )
    return app


@asynccontextmanager
async def serving(host: FakeHost, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app, in process; a streamed body comes as a whole."""
    transport = httpx.ASGITransport(new_app(new_service(host, **options)))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


class Connection:
    """One request to an app, message by message, with a client that can be slow or go away."""

    def __init__(self, app: Any, body: Mapping[str, Any] | None, *, path: str = "/v1/responses") -> None:
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        if body is not None:
            self._messages.put_nowait({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
        self._whole = body is not None
        self.sent: list[dict[str, Any]] = []
        #: Open while the client reads; a closed one holds up whoever sends.
        self.reading = asyncio.Event()
        self.reading.set()
        self._news = asyncio.Event()
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("test", 80),
            "client": ("test", 1),
            "app": app,
        }
        self.task = asyncio.ensure_future(app(scope, self._messages.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        await self.reading.wait()
        self.sent.append(message)
        self._news.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def until(self, text: str) -> None:
        """Wait until the body holds ``text``."""
        while text.encode() not in self.body:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 5)

    def go_away(self) -> None:
        """The client closes the connection; a server may have something left of the body before it says so."""
        if self._whole:
            self._messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        self._messages.put_nowait({"type": "http.disconnect"})

    async def end(self) -> None:
        """Wait until the app is through with the request; raises what it raises."""
        await asyncio.wait_for(self.task, 5)
