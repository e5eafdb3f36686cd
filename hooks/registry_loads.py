"""A client that goes away while the host loads a registered model does not stop the load.

With ``--models-config`` the host loads a model within the request that first asks for it, and cancels the load with
the request: when the client goes away, or its time is up. Nobody cleans up then. The model counts as being loaded from
there on, and until the server is restarted every request for it waits in vain. A request that waits for the load of
another is no better off: when it is cancelled, so is the future that all the others wait for.

With this patch a request that is cancelled stops waiting and nothing else. The model is there for the next one.

Nothing is tried at start-up, so it is taken also on a host that does not need it. A trial would take an event loop in a
thread of its own and a manager with a configuration, made of private parts that differ by release and would keep the
patch off where they change, while the patch itself needs no more than ``acquire``, and one shield more does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from functools import wraps
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

#: What gives leases back that came too late. The event loop itself keeps no hold of its tasks.
_returning: set[asyncio.Future[None]] = set()


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    return [
        SymbolPatch(
            seam="loading of registered models",
            owner="vllm_mlx.model_registry:ModelManager",
            name="acquire",
            parameters=("self", "model_name"),
            replace=undisturbed,
            remove_when="ModelManager.acquire can be cancelled without leaving a load behind that never ends",
            defect="a client that goes away while a registered model is loading leaves it loading for ever",
        )
    ]


def undisturbed(original: Callable[[Any, str], Awaitable[Any]]) -> Callable[[Any, str], Awaitable[Any]]:
    """Acquire in a task of its own, which the caller may stop waiting for."""

    @wraps(original)
    async def acquire(self: Any, model_name: str) -> Any:
        acquiring = asyncio.ensure_future(original(self, model_name))
        try:
            return await asyncio.shield(acquiring)
        except asyncio.CancelledError:
            acquiring.add_done_callback(_return_lease)
            raise

    return acquire


def _return_lease(acquiring: asyncio.Future[Any]) -> None:
    """Give back a lease that nobody waits for any more."""
    if acquiring.cancelled():
        return
    if error := acquiring.exception():
        logger.warning("a model that nobody waits for any more was not loaded: %s", error)
        return
    returning = asyncio.ensure_future(acquiring.result().release())
    _returning.add(returning)
    returning.add_done_callback(_returning.discard)
