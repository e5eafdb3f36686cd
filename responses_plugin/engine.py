"""What the service needs of the host: one chat-completions call, whole or streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.requests import Request

from responses_plugin.context import EngineFacts
from responses_plugin.generation.reader import WholeAnswer
from responses_plugin.lowering.messages import ChatMessage


@dataclass(frozen=True)
class ChatCall:
    """One call of the host's chat-completions handler.

    ``body`` is the request without its messages. Those are lowered by ``lower`` at the moment the host has settled
    on an engine, since what a message may hold depends on it. ``engine_options`` are added to the keyword arguments
    of the engine call, ``on_piece`` sees the engine's raw text as it comes.
    """

    body: Mapping[str, Any]
    lower: Callable[[EngineFacts], list[ChatMessage]]
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    on_piece: Callable[[str], None] | None = None


class Completion(Protocol):
    """A whole answer: ``message`` in the chat-completions shape."""

    @property
    def message(self) -> Mapping[str, Any]: ...

    @property
    def finish_reason(self) -> str | None: ...

    @property
    def usage(self) -> Mapping[str, Any]: ...

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` in the engine's own count; 0 if it cannot tell."""


class ChatStream(Protocol):
    """An answer as it comes."""

    #: Strings that begin or end markup in the engine's text.
    @property
    def markers(self) -> Sequence[str]: ...

    def __aiter__(self) -> AsyncIterator[Mapping[str, Any]]:
        """Chunks in the chat-completions shape; ``{"error": {"message", "code"}}`` when generation broke off."""

    def whole(self) -> WholeAnswer | None:
        """The answer so far as the host's whole-text parsers read it; None where that cannot be asked."""

    def count_tokens(self, text: str) -> int: ...

    async def aclose(self) -> None:
        """Stop generating and let the engine go; safe to call twice."""


class ChatHost(Protocol):
    """The host. Both methods raise :class:`~responses_plugin.protocol.errors.RequestError` for whatever the host
    refuses before generation begins, and return None when the client went away meanwhile.
    """

    async def complete(self, call: ChatCall, raw_request: Request) -> Completion | None: ...

    async def stream(self, call: ChatCall, raw_request: Request) -> ChatStream | None: ...
