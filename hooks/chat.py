"""Generation through the host's own chat-completions handler, called in process.

The handler brings what an operator relies on: model registry, lazy load, timeouts, metrics, structured output,
parsers, SSRF checks, disconnect handling. Globals of the host that it looks up at call time are wrapped, so that
for our calls, and for those only,

* messages are lowered when the engine is known (``_prepare_chat_completion_invocation``), and keyword arguments can
  be added to the engine call there;
* the engine's raw text pieces and its exceptions are seen as they come (``stream_chat_completion``), and the raw text
  of a whole answer when it is parsed (``_extract_reasoning_and_tool_calls``).

A context variable tells our calls from others; a client that talks to ``/v1/chat/completions`` is not affected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import Any

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import StreamingResponse

from responses_plugin.engine import ChatCall
from responses_plugin.generation.reader import budget_spent, usage_of
from responses_plugin.hooks.cached_tokens import scheduled
from responses_plugin.hooks.generation import Generation, ObservedEngine, ReportedError
from responses_plugin.hooks.structured import check_final_schema, check_schema
from responses_plugin.hooks.templates import check_rendering
from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.host_errors import host_error

logger = logging.getLogger(__name__)

_DATA = "data: "
_DONE = "[DONE]"
#: The host's word for "the client has gone".
_CLIENT_CLOSED = 499

_current: ContextVar[Generation | None] = ContextVar("responses_generation", default=None)


@hookimpl(trylast=True)
def responses_host_patches(host: Any) -> list[SymbolPatch]:
    remove_when = "the host's chat handler takes the messages from a callback and tells the engine's raw output"
    return [
        SymbolPatch(
            seam="request lowering",
            owner=host.server,
            name="_prepare_chat_completion_invocation",
            parameters=("engine", "request", "effective_max_tokens"),
            replace=_lower_when_prepared,
            remove_when=remove_when,
        ),
        SymbolPatch(
            seam="engine output",
            owner=host.server,
            name="stream_chat_completion",
            parameters=("engine", "messages", "request"),
            replace=_observe_engine,
            remove_when=remove_when,
        ),
        SymbolPatch(
            seam="engine output, whole",
            owner=host.server,
            name="_extract_reasoning_and_tool_calls",
            parameters=("output_text", "request"),
            replace=_observe_whole_output,
            remove_when=remove_when,
        ),
    ]


def _lower_when_prepared(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def prepare(engine: Any, request: Any, effective_max_tokens: int) -> Any:
        generation = _current.get()
        if generation is None or generation.request is not request:
            return original(engine, request, effective_max_tokens)
        generation.settle_on(engine, effective_max_tokens)
        try:
            prepared = original(engine, request, effective_max_tokens)
        except generation.server.UnsafeRemoteURLError as error:
            raise generation.refused(error) from error
        prepared.chat_kwargs.update(generation.call.engine_options)
        generation.chat_kwargs = prepared.chat_kwargs
        check_rendering(engine, prepared.messages, prepared.chat_kwargs)
        return prepared

    return prepare


def _observe_engine(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def stream(engine: Any, messages: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        generation = _current.get()
        if generation is not None and generation.request is request:
            engine = ObservedEngine(engine, generation)
        return original(engine, messages, request, *args, **kwargs)

    return stream


def _observe_whole_output(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def extract(output_text: str, request: Any = None, **kwargs: Any) -> Any:
        generation = _current.get()
        if generation is not None and generation.request is request:
            generation.pieces = [output_text]
        return original(output_text, request, **kwargs)

    return extract


class _ChatRequestView(Request):
    """The client's request as the chat handler may see it: its JSON is the chat request, not ours.

    The handler reads the body once more to look at ``response_format``; parsing megabytes of images again for that
    would block the event loop.
    """

    def __init__(self, raw_request: Request, body: Mapping[str, Any]) -> None:
        super().__init__(raw_request.scope, raw_request.receive)
        self._chat_body = dict(body)

    async def json(self) -> Any:
        return self._chat_body


class HostCompletion:
    """See :class:`responses_plugin.engine.Completion`."""

    def __init__(self, generation: Generation, answer: Mapping[str, Any]) -> None:
        choice = answer["choices"][0]
        self.finish_reason: str | None = choice.get("finish_reason")
        self.usage: Mapping[str, Any] = generation.with_cached_tokens(answer.get("usage") or {})
        self.markup = generation.markup
        self.token_limit = generation.token_limit
        self.count_tokens = generation.count_tokens
        spent = budget_spent(self.finish_reason, usage_of(self.usage), self.token_limit)
        self.whole = generation.whole(truncated=spent)


class HostStream:
    """See :class:`responses_plugin.engine.ChatStream`."""

    def __init__(self, generation: Generation, response: StreamingResponse) -> None:
        self._generation = generation
        self._frames = aiter(response.body_iterator)
        self._first: Any = None
        self._done = False
        self._finish_told = False
        # An answer that must be JSON is shown once it has been checked.
        self._shown_late = generation.structured or generation.call.final_format is not None
        self.count_tokens = generation.count_tokens
        self.whole = generation.whole
        self.markup = generation.markup
        self.token_limit = generation.token_limit

    @property
    def markup_seen(self) -> bool:
        return self._shown_late or self._generation.markup_seen

    @property
    def thought_certain(self) -> bool:
        return self._generation.thought_certain

    async def begin(self) -> None:
        """Read the first frame, which the host sends before it asks the engine.

        It gives the engine back when its iterator is closed, but an iterator that has not begun does nothing then.
        """
        self._first = await anext(self._frames, None)

    async def __aiter__(self) -> AsyncIterator[Mapping[str, Any]]:
        if self._first is not None and (chunk := self._chunk(self._first)):
            yield chunk
        try:
            # To the very end: a stream that is closed before it is one that the host's metrics count as cancelled.
            async for frame in self._frames:
                if chunk := self._chunk(frame):
                    yield chunk
        except asyncio.CancelledError as cancelled:
            if _is_being_cancelled():
                raise
            self._generation.failure = cancelled
        # Before release 0.6.0 the host says nothing of a failure, and later on not what it was.
        if (failure := self._generation.failure) is not None:
            error = await self._generation.explained(failure)
        elif not self._done:
            error = host_error(504, "The request timed out: the engine gave no output for too long.")
        else:
            if not self._finish_told and (last := self._last_chunk()):
                yield last
            return
        yield {"error": {"message": error.message, "code": error.code}}

    def _chunk(self, frame: Any) -> Mapping[str, Any] | None:
        """The chunk in a frame. A frame without one is the end, or a comment to notice that the client has gone."""
        text = frame if isinstance(frame, str) else bytes(frame).decode()
        if not text.startswith(_DATA):
            return None
        payload = text[len(_DATA) :]
        if payload.startswith(_DONE):
            self._done = True
            return None
        # Once a token: pydantic's parser takes less than half the time of the standard one.
        chunk: dict[str, Any] = from_json(payload)
        if chunk.get("usage"):
            chunk["usage"] = self._generation.with_cached_tokens(chunk["usage"])
        for choice in chunk.get("choices", ()):
            self._finish_told = self._finish_told or bool(choice.get("finish_reason"))
        return chunk

    def _last_chunk(self) -> Mapping[str, Any] | None:
        """The chunk that ends a stream, for hosts that leave it out when the last thing the model wrote is not shown.

        Before release 0.5.0 they do so after a call or a thought that the incremental parser did not take for one.
        Before release 0.4.1 the simple engine gives text-only models no reason when they come to their end, but says
        that they have.
        """
        output = self._generation.last_output
        reason = getattr(output, "finish_reason", None) or ("stop" if getattr(output, "finished", False) else None)
        if reason is None:
            return None
        counts = {"prompt_tokens": output.prompt_tokens, "completion_tokens": output.completion_tokens}
        choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reason}
        return {"choices": [choice], "usage": self._generation.with_cached_tokens(counts)}

    async def aclose(self) -> None:
        close = getattr(self._frames, "aclose", None)
        if close is not None:
            await close()


class HostChat:
    """See :class:`responses_plugin.engine.ChatHost`."""

    def __init__(self, server: ModuleType) -> None:
        self._server = server

    async def complete(self, call: ChatCall, raw_request: Request) -> HostCompletion | None:
        generation, answer = await self._call(call, raw_request)
        if getattr(answer, "status_code", None) == _CLIENT_CLOSED:
            return None
        completion = HostCompletion(generation, answer.model_dump())
        if completion.finish_reason == "error":
            # From release 0.6.0 on the host raises for it.
            raise await generation.explained(ReportedError())
        return completion

    async def stream(self, call: ChatCall, raw_request: Request) -> HostStream | None:
        generation, answer = await self._call(call, raw_request)
        if getattr(answer, "status_code", None) == _CLIENT_CLOSED:
            return None
        stream = HostStream(generation, answer)
        await stream.begin()
        return stream

    async def _call(self, call: ChatCall, raw_request: Request) -> tuple[Generation, Any]:
        generation = Generation(self._server, call)
        token = _current.set(generation)
        scheduled_token = scheduled.set(generation.scheduled)
        try:
            if generation.structured:
                await asyncio.to_thread(check_schema, generation.request.response_format)
            if call.final_format:
                check_final_schema(call.final_format)
            view = _ChatRequestView(raw_request, call.body)
            return generation, await self._server.create_chat_completion(generation.request, view)
        except RequestError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            described = await generation.explained(error)
            if described.status >= 500:
                logger.exception("the host failed to answer")
            raise described from error
        finally:
            scheduled.reset(scheduled_token)
            _current.reset(token)


def _is_being_cancelled() -> bool:
    """Whether the current task is to end. If not, a ``CancelledError`` is the end of something of the host's own.

    Python before 3.11 cannot tell, and the error is taken at its word.
    """
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0
