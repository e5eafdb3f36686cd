"""Generation through the host's own chat-completions handler, called in process.

The handler brings what an operator relies on: model registry, lazy load, timeouts, metrics, structured output,
parsers, SSRF checks, disconnect handling. Two globals of the host that it looks up at call time are wrapped, so that
for our calls, and for those only,

* messages are lowered when the engine is known (``_prepare_chat_completion_invocation``), and keyword arguments can
  be added to the engine call there;
* the engine's raw text pieces and its exceptions are seen as they come (``stream_chat_completion``).

A context variable tells our calls from others; a client that talks to ``/v1/chat/completions`` is not affected.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import Any

from fastapi import HTTPException
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import StreamingResponse

from responses_plugin.context import EngineFacts
from responses_plugin.engine import ChatCall
from responses_plugin.generation.reader import WholeAnswer
from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.host_errors import engine_error, host_error
from responses_plugin.protocol.wire import join_path

logger = logging.getLogger(__name__)

#: Fields of the chat request that have another name in the Responses request.
_WIRE_NAMES = {
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
_DATA = "data: "
_DONE = "[DONE]"
#: The host's word for "the client has gone".
_CLIENT_CLOSED = 499

_current: ContextVar[_Generation | None] = ContextVar("responses_generation", default=None)


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
    ]


def _lower_when_prepared(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def prepare(engine: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        generation = _current.get()
        if generation is None or generation.request is not request:
            return original(engine, request, *args, **kwargs)
        generation.settle_on(engine)
        prepared = original(engine, request, *args, **kwargs)
        prepared.chat_kwargs.update(generation.call.engine_options)
        generation.chat_kwargs = prepared.chat_kwargs
        return prepared

    return prepare


def _observe_engine(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def stream(engine: Any, messages: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        generation = _current.get()
        if generation is not None and generation.request is request:
            engine = _ObservedEngine(engine, generation)
        return original(engine, messages, request, *args, **kwargs)

    return stream


class _Generation:
    """One of our calls, from the request to the end of its answer."""

    def __init__(self, server: ModuleType, call: ChatCall) -> None:
        self.server = server
        self.call = call
        self.request = _chat_request(server, call.body)
        self.engine: Any = None
        self.chat_kwargs: dict[str, Any] = {}
        self.pieces: list[str] = []
        self.failure: BaseException | None = None

    def settle_on(self, engine: Any) -> None:
        """Lower the messages for the engine that will answer."""
        self.engine = engine
        messages = self.call.lower(EngineFacts(supports_images=bool(getattr(engine, "is_mllm", False))))
        message_type = self.server.Message
        self.request.messages = [message_type(**message) for message in messages]

    def observe(self, piece: str) -> None:
        self.pieces.append(piece)
        if self.call.on_piece is not None:
            self.call.on_piece(piece)

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text``; 0 where the engine has no tokenizer to ask."""
        tokenizer = getattr(self.engine, "tokenizer", None)
        encode = getattr(tokenizer, "encode", None)
        if not text or encode is None:
            return 0
        try:
            return len(encode(text, add_special_tokens=False))
        except (TypeError, ValueError):
            return 0

    def whole(self) -> WholeAnswer | None:
        """What the host makes of the whole text; None for structured output, which it buffers and checks itself."""
        if self.request.response_format is not None:
            return None
        server = self.server
        # Absent before release 0.4.0, where thinking could not be switched off.
        thinking_disabled = getattr(server, "_thinking_disabled", lambda request, kwargs: False)
        _, text, calls = server._extract_reasoning_and_tool_calls(  # noqa: SLF001 - the host has no public parser
            "".join(self.pieces),
            self.request,
            allow_reasoning=not thinking_disabled(self.request, self.chat_kwargs),
            engine=self.engine,
        )
        return WholeAnswer(
            server.clean_output_text(text) if text else "",
            [(call.function.name, call.function.arguments) for call in calls or ()],
        )

    def markers(self) -> Sequence[str]:
        """Where markup begins and ends in this engine's text, by what the host's parsers look for."""
        reasoning = getattr(self.server, "_reasoning_parser", None)
        thinking = [getattr(reasoning, "start_token", None), getattr(reasoning, "end_token", None)]
        markers = ["<think>", "</think>", *(token for token in thinking if isinstance(token, str) and token)]
        if self.request.tools:
            markers += [*self.server._STREAMING_TOOL_MARKERS, "</tool_call>", '{"name":', '{"name" :']  # noqa: SLF001
        return markers


class _ObservedEngine:
    """The engine, with its stream watched on the way."""

    def __init__(self, engine: Any, generation: _Generation) -> None:
        self._engine = engine
        self._generation = generation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def stream_chat(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        generation = self._generation
        outputs = self._engine.stream_chat(*args, **kwargs)
        try:
            async for output in outputs:
                if output.new_text:
                    generation.observe(output.new_text)
                yield output
        except Exception as error:
            generation.failure = error
            raise
        finally:
            await outputs.aclose()


def _chat_request(server: ModuleType, body: Mapping[str, Any]) -> Any:
    """The host's request model, with what this release knows of the body."""
    model = server.ChatCompletionRequest
    known = {key: value for key, value in body.items() if key in model.model_fields and value is not None}
    try:
        return model(**known, messages=[])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field, *rest = first["loc"] or ("body",)
        param = join_path(_WIRE_NAMES.get(str(field), str(field)), tuple(rest))
        raise RequestError(f"Invalid value for '{param}': {first['msg']}.", param=param, code="invalid_value") from None


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

    def __init__(self, generation: _Generation, answer: Mapping[str, Any]) -> None:
        choice = answer["choices"][0]
        self.message: Mapping[str, Any] = choice["message"]
        self.finish_reason: str | None = choice.get("finish_reason")
        self.usage: Mapping[str, Any] = answer.get("usage") or {}
        self.count_tokens = generation.count_tokens


class HostStream:
    """See :class:`responses_plugin.engine.ChatStream`."""

    def __init__(self, generation: _Generation, response: StreamingResponse) -> None:
        self._generation = generation
        self._frames = response.body_iterator
        self.count_tokens = generation.count_tokens
        self.whole = generation.whole
        self.markers = generation.markers()

    async def __aiter__(self) -> AsyncIterator[Mapping[str, Any]]:
        async for frame in self._frames:
            text = frame if isinstance(frame, str) else bytes(frame).decode()
            # Everything else is a comment, which the host sends to notice that the client has gone.
            if not text.startswith(_DATA):
                continue
            payload = text[len(_DATA) :].strip()
            if payload == _DONE:
                break
            yield json.loads(payload)
        # Before release 0.6.0 the host says nothing of a failure, and later on not what it was.
        if (failure := self._generation.failure) is not None:
            error = (
                host_error(failure.status_code, failure.detail)
                if isinstance(failure, HTTPException)
                else engine_error(failure)
            )
            yield {"error": {"message": error.message, "code": error.code}}

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
        return HostCompletion(generation, answer.model_dump())

    async def stream(self, call: ChatCall, raw_request: Request) -> HostStream | None:
        generation, answer = await self._call(call, raw_request)
        if getattr(answer, "status_code", None) == _CLIENT_CLOSED:
            return None
        return HostStream(generation, answer)

    async def _call(self, call: ChatCall, raw_request: Request) -> tuple[_Generation, Any]:
        generation = _Generation(self._server, call)
        token = _current.set(generation)
        try:
            view = _ChatRequestView(raw_request, call.body)
            return generation, await self._server.create_chat_completion(generation.request, view)
        except HTTPException as error:
            raise host_error(error.status_code, error.detail, error.headers) from error
        except RequestError:
            raise
        except Exception as error:
            logger.exception("the host failed to answer")
            raise engine_error(error) from error
        finally:
            _current.reset(token)
