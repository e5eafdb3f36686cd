"""One of our calls of the host's chat handler, from the request to the end of its answer.

It knows the host's request, the engine that was settled on, and all text that came of it, and asks the host's own
parsers what that text means.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from fastapi import HTTPException
from pydantic import BaseModel, ValidationError, create_model

from responses_plugin.context import EngineFacts
from responses_plugin.engine import ChatCall
from responses_plugin.generation.markup import Markup, MarkupWatch
from responses_plugin.generation.reader import WholeAnswer
from responses_plugin.generation.thought import split_unclosed_thought
from responses_plugin.hooks.cached_tokens import cached_tokens, scheduled
from responses_plugin.hooks.structured import checked_json
from responses_plugin.hooks.templates import template_rules
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.host_errors import engine_error, host_error, unfit_answer
from responses_plugin.protocol.wire import join_path

#: Fields of the chat request that have another name in the Responses request.
_WIRE_NAMES = {
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
#: Calls without any tag around them.
_BARE_CALLS = ("<｜DSML｜", '{"name":', '{"name" :', '[{"name":', '[{"name" :')


class Generation:
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
        self._tool_markup = Markup(tool_markers)
        self._watch = MarkupWatch(self._tool_markup)
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

    def whole(self, *, truncated: bool, ended: bool = True) -> WholeAnswer:
        """What the host makes of the text so far. Raises :class:`RequestError` for an answer that has ended and is not
        the JSON that was asked for.
        """
        if self.structured:
            reasoning, text, _ = self._parse(self.request)
            text = checked_json(text or "".join(self.pieces), self.request.response_format)
            return WholeAnswer(text=text, reasoning=reasoning or "")
        # What is declared as not to be called is not called, whatever the text looks like; see _visible.
        content_only = self.request.model_copy(update={"tools": None})
        reasoning, content, _ = self._parse(content_only)
        _, text, calls = self._parse(self.request)
        thought, text = self._split_thought(self._visible(text), truncated=truncated)
        if self.call.final_format and ended and not calls and not truncated:
            if self._tool_markup.find(text.partition("{")[0]) >= 0:
                # The arguments of a call that broke off are JSON as well, and not the answer.
                raise unfit_answer("it is a call of a tool that broke off")
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


class ObservedEngine:
    """The engine, with its stream watched on the way."""

    def __init__(self, engine: Any, generation: Generation) -> None:
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
                    generation.failure = ReportedError()
                yield output
        except Exception as error:
            generation.failure = error
            raise
        finally:
            await outputs.aclose()


class ReportedError(RuntimeError):
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
