"""What the service needs of the host: one chat-completions call, whole or streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.requests import Request

from responses_plugin.context import EngineFacts
from responses_plugin.generation.markup import Markup
from responses_plugin.generation.reader import Source, WholeAnswer
from responses_plugin.lowering.messages import ChatMessage
from responses_plugin.protocol.errors import RequestError


@dataclass(frozen=True)
class ChatCall:
    """One call of the host's chat-completions handler.

    ``body`` is the request without its messages. Those are lowered by ``lower`` at the moment the host has settled
    on an engine, since what a message may hold depends on it. ``final_format`` is the response format of an answer
    without calls, where the host cannot be given one because there are tools. ``engine_options`` are added to the keyword arguments
    of the engine call, ``on_piece`` sees the engine's raw text as it comes. ``locate`` gives the place in the
    client's body of the first remote image that a text mentions, for errors that the host can only word;
    ``find_damaged_image`` the error for an image that cannot be decoded, for engines that say nothing of why they
    failed. The latter takes long.
    """

    body: Mapping[str, Any]
    lower: Callable[[EngineFacts], list[ChatMessage]]
    final_format: Mapping[str, Any] | None = None
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    on_piece: Callable[[str], None] | None = None
    locate: Callable[[str], str | None] = field(default=lambda text: None)
    find_damaged_image: Callable[[], RequestError | None] = field(default=lambda: None)


class Answer(Protocol):
    """What both forms of an answer have."""

    #: Where markup begins in the engine's text.
    @property
    def markup(self) -> Markup: ...

    #: How many tokens the answer may have.
    @property
    def token_limit(self) -> int | None: ...

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` in the engine's own count; 0 if it cannot tell."""


class Completion(Answer, Protocol):
    """A whole answer."""

    @property
    def whole(self) -> WholeAnswer: ...

    @property
    def finish_reason(self) -> str | None: ...

    @property
    def usage(self) -> Mapping[str, Any]: ...


class ChatStream(Answer, Source, Protocol):
    """An answer as it comes."""

    def __aiter__(self) -> AsyncIterator[Mapping[str, Any]]:
        """Chunks in the chat-completions shape; ``{"error": {"message", "code"}}`` when generation broke off."""

    async def aclose(self) -> None:
        """Stop generating and let the engine go; safe to call twice."""


class ChatHost(Protocol):
    """The host. Both methods raise :class:`~responses_plugin.protocol.errors.RequestError` for whatever the host
    refuses before generation begins, and return None when the client went away meanwhile.
    """

    async def complete(self, call: ChatCall, raw_request: Request) -> Completion | None: ...

    async def stream(self, call: ChatCall, raw_request: Request) -> ChatStream | None: ...
