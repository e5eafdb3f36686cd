"""One request's way: parse, history, lower, generate, build, store."""

from __future__ import annotations

import asyncio
import io
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from responses_plugin.context import EngineFacts, RequestContext
from responses_plugin.engine import ChatCall, ChatHost, ChatStream
from responses_plugin.generation.builder import ResponseBuilder
from responses_plugin.generation.events import Failed, Finished, GenerationEvent
from responses_plugin.generation.reader import ChunkReader, budget_spent, events_of_whole, usage_of
from responses_plugin.kinds.toolset import Declaration, Toolset, parse_tools
from responses_plugin.lowering.conversation import (
    find_damaged_image,
    locate_remote_image,
    lower_conversation,
    require_input,
)
from responses_plugin.lowering.messages import ChatMessage
from responses_plugin.lowering.request import lower_final_format, lower_request
from responses_plugin.parsing import parse_body, parse_input
from responses_plugin.plugins import Plugins
from responses_plugin.protocol.dialects import OPENAI, Dialect
from responses_plugin.protocol.errors import RequestError, server_error
from responses_plugin.protocol.items import Entry, ItemReference
from responses_plugin.protocol.request import ResponsesRequest
from responses_plugin.protocol.response import Wire
from responses_plugin.responses import EventStreamResponse, JsonResponse
from responses_plugin.store.base import ResponseStore, StoredTurn

logger = logging.getLogger(__name__)

#: Bodies over this many bytes are parsed in a thread, so that other requests are served meanwhile.
_PARSE_IN_THREAD = 256 * 1024
#: Seconds in which the host may still refuse a streamed request with an HTTP status. After that the stream begins,
#: and a refusal ends it: a model that is being loaded, or an answer that the host checks before it lets it out, must
#: not leave the client without a sign of life.
_REFUSAL_SECONDS = 0.5
#: The host's word for "the client has gone"; nobody is left to read it.
_CLIENT_CLOSED = 499


#: Codes of refused requests that clients know in a failed response as well.
_FAILURE_CODES = frozenset(
    {"context_length_exceeded", "failed_to_download_image", "invalid_image", "invalid_image_url", "rate_limit_exceeded"}
)


@dataclass(frozen=True)
class Turn:
    """A request that is ready to be answered."""

    context: RequestContext
    #: The request's own items, references resolved.
    own: Sequence[Entry]
    #: All items, inherited ones first.
    entries: Sequence[Entry]
    chat: Mapping[str, Any]

    @property
    def request(self) -> ResponsesRequest:
        return self.context.request


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def _now() -> int:
    return int(time.time())


class ResponsesService:
    """Answers requests with the help of a host, and remembers the answers."""

    def __init__(
        self,
        *,
        plugins: Plugins,
        host: ChatHost,
        store: ResponseStore,
        keepalive_seconds: float = 10.0,
        max_body_bytes: int = 1 << 28,
        dialect: Dialect = OPENAI,
        new_id: Callable[[str], str] = _new_id,
        now: Callable[[], int] = _now,
    ) -> None:
        self._plugins = plugins
        self._host = host
        self._store = store
        self._keepalive_seconds = keepalive_seconds
        self._max_body_bytes = max_body_bytes
        self.dialect = dialect
        self._new_id = new_id
        self._now = now

    async def create(self, raw_request: Request) -> Response:
        """``POST /v1/responses``. Raises :class:`RequestError` for what can be refused before the answer begins."""
        try:
            turn = await self._read(raw_request)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_CLOSED)
        builder = ResponseBuilder(
            turn.request,
            turn.context.toolset,
            new_id=self._new_id,
            now=self._now,
            choose_item=lambda call: self._plugins.build_output_item(call, turn.context),
        )
        call = ChatCall(
            turn.chat,
            lambda facts: self._lower(turn, facts),
            final_format=lower_final_format(turn.request, turn.chat),
            locate=lambda text: locate_remote_image(turn.entries, text),
            find_damaged_image=lambda: find_damaged_image(turn.entries),
        )
        if turn.request.stream:
            return await self._stream(turn, builder, call, raw_request)
        return await self._complete(turn, builder, call, raw_request)

    def retrieve(self, response_id: str) -> Wire:
        """``GET /v1/responses/{id}``."""
        turn = self._store.get(response_id)
        if turn is None:
            raise _not_found(response_id)
        return self.dialect.response(turn.response)

    def delete(self, response_id: str) -> Wire:
        """``DELETE /v1/responses/{id}``."""
        if not self._store.delete(response_id):
            raise _not_found(response_id)
        return {"id": response_id, "object": "response", "deleted": True}

    # --- In ---

    async def _read(self, raw_request: Request) -> Turn:
        # Not raw_request.body(), which would keep the bytes for as long as the answer takes. And not a bytearray, of
        # which the parser makes a copy: a BytesIO gives its bytes away without one.
        buffer = io.BytesIO()
        async for chunk in raw_request.stream():
            if buffer.tell() + len(chunk) > self._max_body_bytes:
                raise _too_large(self._max_body_bytes)
            buffer.write(chunk)
        if buffer.tell() > _PARSE_IN_THREAD:
            context, own = await asyncio.to_thread(self._parse, buffer.getvalue())
        else:
            context, own = self._parse(buffer.getvalue())
        inherited = self._inherited(context.request)
        own = [self._resolved(entry) for entry in own]
        entries = [*inherited, *own]
        require_input(entries, context.request.instructions)
        context = replace(context, toolset=self._tools(context.request, entries))
        return Turn(context, own, entries, lower_request(context.request, context.toolset))

    def _parse(self, body: bytes) -> tuple[RequestContext, list[Entry]]:
        request = parse_body(body)
        context = RequestContext(request, self._plugins.tool_kinds, self._plugins.content_parts, Toolset())
        return context, parse_input(self._plugins, context)

    def _tools(self, request: ResponsesRequest, entries: Sequence[Entry]) -> Toolset:
        """The request's own tools, then those that came up in the conversation."""
        brought = [Declaration(entry.item.declared_tools(), f"{entry.path}.tools") for entry in entries]
        return parse_tools(request.tools, self._plugins.tool_kinds, brought)

    def _inherited(self, request: ResponsesRequest) -> list[Entry]:
        """The items of the conversation so far; instructions are not carried over."""
        if request.conversation_id is not None:
            return self._conversation(request.conversation_id)
        if request.previous_response_id is None:
            return []
        try:
            items = self._store.history(request.previous_response_id)
        except KeyError as missing:
            raise RequestError(
                f"Previous response with id '{request.previous_response_id}' not found"
                + (
                    f": it continues '{missing.args[0]}', which is gone"
                    if missing.args[0] != request.previous_response_id
                    else ""
                )
                + ". Send the whole conversation in 'input' instead.",
                param="previous_response_id",
                code="previous_response_not_found",
                status=404,
            ) from None
        return [Entry(item, "previous_response_id") for item in items]

    def _conversation(self, conversation_id: str) -> list[Entry]:
        try:
            items = self._store.conversation(conversation_id)
        except KeyError:
            raise RequestError(
                f"Conversation with id '{conversation_id}' is no longer whole: its oldest turns were dropped for newer "
                "ones. Send the whole conversation in 'input', under a new id.",
                param="conversation",
                code="conversation_not_found",
                status=404,
            ) from None
        return [Entry(item, "conversation") for item in items]

    def _resolved(self, entry: Entry) -> Entry:
        """The item that a reference stands for."""
        if not isinstance(entry.item, ItemReference):
            return entry
        item = self._store.item(entry.item.id)
        if item is None:
            raise RequestError(
                f"Item with id '{entry.item.id}' not found. Items are kept when responses are created with "
                "'store': true; send the item itself instead.",
                param=f"{entry.path}.id",
                code="item_not_found",
                status=404,
            )
        return Entry(item, entry.path)

    def _lower(self, turn: Turn, facts: EngineFacts) -> list[ChatMessage]:
        context = replace(turn.context, engine=facts)
        messages = lower_conversation(self._plugins, turn.entries, context)
        if facts.supports_images:
            return [self._plugins.build_mllm_message(message, context) for message in messages]
        return messages

    # --- Out, at once ---

    async def _complete(self, turn: Turn, builder: ResponseBuilder, call: ChatCall, raw_request: Request) -> Response:
        completion = await self._host.complete(call, raw_request)
        if completion is None:
            return Response(status_code=_CLIENT_CLOSED)
        whole = completion.whole
        builder.start()
        for event in events_of_whole(whole, completion.markup):
            builder.feed(event)
        usage = usage_of(completion.usage).with_reasoning(completion.count_tokens(whole.reasoning))
        builder.feed(Finished(usage, budget_spent(completion.finish_reason, usage, completion.token_limit)))
        self._keep(turn, builder.response)
        return JsonResponse(self.dialect.response(builder.response))

    # --- Out, as it comes ---

    async def _stream(self, turn: Turn, builder: ResponseBuilder, call: ChatCall, raw_request: Request) -> Response:
        opening = asyncio.ensure_future(self._host.stream(call, raw_request))
        try:
            await asyncio.wait([opening], timeout=_REFUSAL_SECONDS)
        except asyncio.CancelledError:
            await _let_go(opening)
            raise
        if opening.done() and opening.result() is None:
            return Response(status_code=_CLIENT_CLOSED)
        events = self._events(turn, builder, opening)
        return EventStreamResponse(events, builder, self._keepalive_seconds, self.dialect)

    async def _events(
        self, turn: Turn, builder: ResponseBuilder, opening: asyncio.Future[ChatStream | None]
    ) -> AsyncGenerator[Sequence[Wire], None]:
        """The events of one answer, batch by batch; ends with exactly one terminal event."""
        try:
            yield builder.start()
            stream = await _opened(opening)
            reader = ChunkReader(stream)
            # All in this one generator: each one more would be gone through for every token.
            async for chunk in stream:
                for event in reader.feed(chunk):
                    if made := builder.feed(event):
                        yield made
            for last in self._end(turn, builder, reader.finish(stream.count_tokens)):
                yield last
        except Exception as error:
            if not isinstance(error, RequestError):
                logger.exception("the stream of %s failed", builder.response["id"])
            if not builder.done:
                for last in self._end(turn, builder, [_failure(error)]):
                    yield last
        finally:
            await _let_go(opening)

    def _end(self, turn: Turn, builder: ResponseBuilder, events: Iterable[GenerationEvent]) -> Iterator[Sequence[Wire]]:
        """The last events of an answer, batch by batch."""
        for event in events:
            made = builder.feed(event)
            if builder.done:
                # Stored before the client hears of it: it may ask for it at once.
                self._keep(turn, builder.response)
            if made:
                yield made

    # --- Memory ---

    def _keep(self, turn: Turn, response: Wire) -> None:
        """Store an answer that is whole, and tell the observers. Whatever goes wrong here, the answer is sent."""
        if turn.request.store and response["status"] in ("completed", "incomplete"):
            try:
                self._store.save(self._stored(turn, response))
            except Exception:
                logger.exception("%s cannot be stored", response["id"])
        self._plugins.completed(response, turn.context)

    def _stored(self, turn: Turn, response: Wire) -> StoredTurn:
        context = turn.context.at("output")
        return StoredTurn(
            response=response,
            input=[entry.item for entry in turn.own],
            # As they are when a client sends them back.
            output=[self._plugins.parse_input_item(item, context) for item in response["output"]],
            previous_response_id=turn.request.previous_response_id,
            conversation_id=turn.request.conversation_id,
        )


async def _opened(opening: asyncio.Future[ChatStream | None]) -> ChatStream:
    stream = await opening
    if stream is None:
        raise server_error("The client closed the connection.", status=_CLIENT_CLOSED)
    return stream


def _failure(error: Exception) -> Failed:
    if isinstance(error, RequestError):
        return Failed(error.message, _failure_code(error))
    return Failed("The server failed; its log has the details.")


def _failure_code(error: RequestError) -> str:
    """The code of a failed response. Clients try again on codes they do not know, which a bad request never mends."""
    if error.type == "invalid_request_error" and error.code not in _FAILURE_CODES:
        return "invalid_prompt"
    return error.code or "server_error"


async def _let_go(opening: asyncio.Future[ChatStream | None]) -> None:
    """Close a stream that was read to its end, or that nobody will read any more, even if it is still being opened."""
    opening.cancel()
    await asyncio.wait([opening])
    if opening.cancelled() or opening.exception() is not None:
        return
    stream = opening.result()
    try:
        if stream is not None:
            await stream.aclose()
    except Exception:
        logger.exception("the host failed to close a stream")


def _too_large(limit: int) -> RequestError:
    return RequestError(
        f"The request is larger than {limit} bytes. Leave out old images, or raise the limit of the server "
        "(--responses-max-body-bytes).",
        code="request_too_large",
        status=413,
    )


def _not_found(response_id: str) -> RequestError:
    return RequestError(
        f"Response with id '{response_id}' not found. It may not have been stored, or was dropped for newer ones.",
        param="response_id",
        code="response_not_found",
        status=404,
    )
