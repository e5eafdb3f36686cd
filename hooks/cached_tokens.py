"""How many tokens of a prompt the batched engine found in its prefix cache.

The engine knows, and tells nobody: its scheduler keeps the number with the request. So requests that are added while
one of our calls is under way are remembered with it, and asked in the end. Other engines keep no such number, and
then 0 is reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch

#: Where the scheduler's requests of the current call are put.
scheduled: ContextVar[list[Any] | None] = ContextVar("responses_scheduled", default=None)


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    return [
        SymbolPatch(
            seam="cached tokens",
            owner="vllm_mlx.engine_core:EngineCore",
            name="add_request",
            parameters=("self", "prompt"),
            replace=_remember_request,
            remove_when="the host reports cached tokens with its usage",
            defect="usage tells of no cached tokens, whatever was found in the prefix cache",
        )
    ]


def _remember_request(original: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    @wraps(original)
    async def add_request(self: Any, *args: Any, **kwargs: Any) -> str:
        request_id = await original(self, *args, **kwargs)
        requests = scheduled.get()
        if requests is not None and (request := self.scheduler.requests.get(request_id)) is not None:
            requests.append(request)
        return request_id

    return add_request


def cached_tokens(requests: Sequence[Any]) -> int:
    """Of all requests of one call, once they have begun; a call that was started anew counts its last one."""
    return int(getattr(requests[-1], "cached_tokens", 0) or 0) if requests else 0
