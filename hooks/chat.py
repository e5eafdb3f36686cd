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
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, wraps
from types import ModuleType
from typing import Any

from fastapi import HTTPException
from pydantic import BaseModel, ValidationError, create_model
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import StreamingResponse

from responses_plugin.context import EngineFacts
from responses_plugin.engine import ChatCall
from responses_plugin.generation.markup import Markup, MarkupWatch
from responses_plugin.generation.reader import WholeAnswer, budget_spent, usage_of
from responses_plugin.generation.thought import split_unclosed_thought
from responses_plugin.hooks.cached_tokens import cached_tokens, scheduled
from responses_plugin.hooks.structured import check_final_schema, check_schema, checked_json
from responses_plugin.hooks.templates import check_rendering, template_rules
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
#: Calls without any tag around them.
_BARE_CALLS = ("<｜DSML｜", '{"name":', '{"name" :', '[{"name":', '[{"name" :')
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
            engine = _ObservedEngine(engine, generation)
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


class _Generation:
    """One of our calls, from the request to the end of its answer."""

    def __init__(self, server: ModuleType, call: ChatCall) -> None:
        self.server = server
        self.call = call
        self.request = _chat_request(server, call.body)
        self.engine: Any = None
        self.token_limit: int | None = None
        self.chat_kwargs: dict[str, Any] = {}
        self.pieces: list[str] = []
        tags = self._thinking_tags()
        tool_markers = self._tool_markers()
        self.markup = Markup([*(tags or ()), *tool_markers])
        self._watch = MarkupWatch(Markup(tool_markers))
        self._tag_watch = MarkupWatch(Markup(tags, special_tokens=False)) if tags else None
        self._prompt_opens_thought: bool | None = None
        self.failure: BaseException | None = None
        #: The scheduler's requests for this call; see ``cached_tokens``.
        self.scheduled: list[Any] = []
        #: The engine's last output, once there is one.
        self.last_output: Any = None

    def settle_on(self, engine: Any, token_limit: int) -> None:
        """Lower the messages for the engine that will answer."""
        self.engine = engine
        self.token_limit = token_limit
        supports_images = bool(getattr(engine, "is_mllm", False))
        messages = self.call.lower(EngineFacts(supports_images=supports_images, template=template_rules(engine)))
        message_type = _message_type(self.server.Message)
        self.request.messages = [message_type(**message) for message in messages]

    def observe(self, piece: str) -> None:
        """Take note of text as the engine emits it."""
        self.pieces.append(piece)
        self._watch.feed(piece)
        if self._tag_watch:
            self._tag_watch.feed(piece)
        if self.call.on_piece is not None:
            self.call.on_piece(piece)

    @property
    def markup_seen(self) -> bool:
        return self._watch.seen

    @property
    def structured(self) -> bool:
        """Whether the host was asked for JSON."""
        return self.request.response_format is not None

    @property
    def thought_certain(self) -> bool:
        return self._tag_watch is None or self._tag_watch.seen or self._prompt_opens()

    def refused(self, error: BaseException) -> RequestError:
        """The error for an exception of the engine or of its preparation, naming the image it is about."""
        if isinstance(error, HTTPException):
            return host_error(error.status_code, error.detail, error.headers)
        if isinstance(error, asyncio.CancelledError):
            # Such as all requests that wait for a model when the first of them is gone.
            return host_error(503, "The host has dropped this request; try again.")
        described = engine_error(error)
        if described.status < 500 and (place := self.call.locate(self._culprit(error))):
            described.param = place
        return described

    async def explained(self, error: BaseException) -> RequestError:
        """The same, after a look at what the engine may have failed on: some engines say only that they have."""
        described = self.refused(error)
        if described.code in {"server_error", "invalid_image"}:
            return await asyncio.to_thread(self.call.find_damaged_image) or described
        return described

    def _culprit(self, error: BaseException) -> str:
        """A text that mentions the URL at fault. The guard's own does not, so the guard is asked again, one by one."""
        server = self.server
        if not isinstance(error, server.UnsafeRemoteURLError):
            return str(error)
        for url in server._iter_remote_media_urls(self.request.messages):  # noqa: SLF001 - the host's guard
            try:
                server._validate_url_safety(url)  # noqa: SLF001
            except server.UnsafeRemoteURLError:
                return str(url)
        return str(error)

    def with_cached_tokens(self, usage: Mapping[str, Any]) -> Mapping[str, Any]:
        """The host's usage, with what it leaves out in OpenAI's place for it."""
        return {**usage, "prompt_tokens_details": {"cached_tokens": cached_tokens(self.scheduled)}}

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

    def whole(self, *, truncated: bool) -> WholeAnswer:
        """What the host makes of the text so far. Raises :class:`RequestError` for JSON that is not what was asked for."""
        if self.structured:
            reasoning, text, _ = self._parse(self.request)
            text = checked_json(text or "".join(self.pieces), self.request.response_format)
            return WholeAnswer(text=text, reasoning=reasoning or "")
        # What is declared as not to be called is not called, whatever the text looks like; see _visible.
        content_only = self.request.model_copy(update={"tools": None})
        reasoning, content, _ = self._parse(content_only)
        _, text, calls = self._parse(self.request)
        thought, text = self._split_thought(self._visible(text), truncated=truncated)
        if self.call.final_format and text and not calls and not truncated:
            text = checked_json(text, self.call.final_format)
        return WholeAnswer(
            text=text,
            reasoning=reasoning or thought,
            calls=[(call.function.name, call.function.arguments) for call in calls or ()],
            content="" if thought and not text else content or "",
        )

    def _parse(self, request: Any) -> tuple[str | None, str | None, Any]:
        """The host's whole-text parsers: (reasoning, text, calls)."""
        parsed: tuple[str | None, str | None, Any] = self.server._extract_reasoning_and_tool_calls(  # noqa: SLF001
            "".join(self.pieces), request, allow_reasoning=not self._thinking_disabled(), engine=self.engine
        )
        return parsed

    def _visible(self, text: str | None) -> str:
        """The text of an answer as the host's non-streaming answers show it."""
        server = self.server
        if text and self.request.tools and self.request.tool_choice == "none":
            # No call may come of it, so the host does not look for one. What looks like one is not an answer either.
            willing = self.request.model_copy(update={"tool_choice": "auto"})
            text, _ = server._parse_tool_calls_with_parser(text, willing, engine=self.engine)  # noqa: SLF001
        return server.clean_output_text(text) if text else ""

    def _split_thought(self, text: str, *, truncated: bool) -> tuple[str, str]:
        """(thought, answer), where the host's whole-text parser took a thought that was cut off for an answer."""
        tags = self._thinking_tags()
        if not tags or self._thinking_disabled() or tags[1] in "".join(self.pieces):
            return "", text
        opened = self._prompt_opens()
        thought, answer = split_unclosed_thought(text, start=tags[0], end=tags[1], opened=opened)
        # A model that stopped by itself in a thought that the prompt opened has answered there.
        return (thought, text) if opened and not truncated and tags[0] not in text else (thought, answer)

    def _prompt_opens(self) -> bool:
        """Whether the prompt ends within a thought."""
        if self._prompt_opens_thought is None:
            # Absent before release 0.5.0, where such a thought is known by the tag that ends it.
            detect = getattr(self.server, "_detect_implicit_thinking", lambda engine, kwargs: False)
            self._prompt_opens_thought = bool(detect(self.engine, self.chat_kwargs))
        return self._prompt_opens_thought

    def _thinking_disabled(self) -> bool:
        # Absent before release 0.4.0, where thinking could not be switched off.
        disabled = getattr(self.server, "_thinking_disabled", lambda request, kwargs: False)
        return bool(disabled(self.request, self.chat_kwargs))

    def _thinking_tags(self) -> tuple[str, str] | None:
        """The tags of the reasoning parser, if one is in use and has tags."""
        parser = self.server._reasoning_parser  # noqa: SLF001
        start, end = getattr(parser, "start_token", None), getattr(parser, "end_token", None)
        return (start, end) if isinstance(start, str) and isinstance(end, str) and start and end else None

    def _tool_markers(self) -> Sequence[str]:
        """Where calls begin in text, by what the host's parsers look for, bare JSON among it."""
        if not self.request.tools:
            return ()
        return [*self.server._STREAMING_TOOL_MARKERS, "</tool_call>", *_BARE_CALLS]  # noqa: SLF001


class _ObservedEngine:
    """The engine, with its stream watched on the way."""

    def __init__(self, engine: Any, generation: _Generation) -> None:
        self._engine = engine
        self._generation = generation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def stream_chat(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        generation = self._generation
        scheduled.set(generation.scheduled)
        outputs = self._engine.stream_chat(*args, **kwargs)
        try:
            async for output in outputs:
                generation.last_output = output
                if output.new_text:
                    generation.observe(output.new_text)
                if output.finish_reason == "error":
                    # From release 0.6.0 on the host raises for it.
                    generation.failure = _ReportedError()
                yield output
        except Exception as error:
            generation.failure = error
            raise
        finally:
            await outputs.aclose()


class _ReportedError(RuntimeError):
    """The engine reports a failure as the reason why it has finished."""


@cache
def _message_type(host_type: type[BaseModel]) -> type[BaseModel]:
    """The host's message type, with the reasoning of an assistant, which it has no field for before release 0.5.0."""
    if "reasoning_content" in host_type.model_fields:
        return host_type
    return create_model(host_type.__name__, __base__=host_type, reasoning_content=(str | None, None))


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
        self.finish_reason: str | None = choice.get("finish_reason")
        self.usage: Mapping[str, Any] = generation.with_cached_tokens(answer.get("usage") or {})
        self.markup = generation.markup
        self.token_limit = generation.token_limit
        self.count_tokens = generation.count_tokens
        spent = budget_spent(self.finish_reason, usage_of(self.usage), self.token_limit)
        self.whole = generation.whole(truncated=spent)


class HostStream:
    """See :class:`responses_plugin.engine.ChatStream`."""

    def __init__(self, generation: _Generation, response: StreamingResponse) -> None:
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
            if not self._finish_told and (last := _last_chunk(self._generation.last_output)):
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

    async def aclose(self) -> None:
        close = getattr(self._frames, "aclose", None)
        if close is not None:
            await close()


def _last_chunk(output: Any) -> dict[str, Any] | None:
    """The chunk that ends a stream, for hosts that leave it out when the last thing the model wrote is not shown.

    Before release 0.5.0 they do so after a call or a thought that the incremental parser did not take for one.
    """
    reason = getattr(output, "finish_reason", None)
    if reason is None:
        return None
    usage = {"prompt_tokens": output.prompt_tokens, "completion_tokens": output.completion_tokens}
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}


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
            raise await generation.explained(_ReportedError())
        return completion

    async def stream(self, call: ChatCall, raw_request: Request) -> HostStream | None:
        generation, answer = await self._call(call, raw_request)
        if getattr(answer, "status_code", None) == _CLIENT_CLOSED:
            return None
        stream = HostStream(generation, answer)
        await stream.begin()
        return stream

    async def _call(self, call: ChatCall, raw_request: Request) -> tuple[_Generation, Any]:
        generation = _Generation(self._server, call)
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
