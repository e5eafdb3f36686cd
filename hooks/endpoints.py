"""The routes that replace or join the host's, behind the host's own API key and rate limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from fastapi import Depends, HTTPException, Request

from responses_plugin.hooks.chat import HostChat
from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import HostPatch, RoutePatch, WebSocketPatch
from responses_plugin.protocol.dialects import DIALECTS
from responses_plugin.routes import endpoints, refuse_websocket
from responses_plugin.service import ResponsesService
from responses_plugin.store.memory import MemoryStore


@hookimpl(trylast=True)
def responses_host_patches(host: Any) -> list[HostPatch]:
    """One patch an endpoint; the service behind them lives as long as the patches do."""
    settings = host.settings
    service = ResponsesService(
        plugins=host.plugins,
        host=HostChat(host.server),
        store=MemoryStore(settings.max_stored_responses, settings.max_stored_bytes),
        keepalive_seconds=settings.keepalive_seconds,
        max_body_bytes=settings.max_body_bytes,
        dialect=DIALECTS[settings.dialect],
    )
    guards = [
        Depends(_require_readable_key(host.server)),
        Depends(host.server.verify_api_key),
        Depends(host.server.check_rate_limit),
    ]
    routes: list[HostPatch] = [
        RoutePatch(
            seam=f"{endpoint.method} {endpoint.path}",
            app=host.app,
            path=endpoint.path,
            method=endpoint.method,
            endpoint=endpoint.function,
            dependencies=guards,
            remove_when="the host serves this endpoint completely",
            route_class=endpoint.route_class,
        )
        for endpoint in endpoints(service)
    ]
    upgrade = WebSocketPatch(
        seam="WebSocket /v1/responses",
        app=host.app,
        path="/v1/responses",
        endpoint=refuse_websocket,
        remove_when="the host serves responses over WebSocket, or refuses to with 426",
    )
    return [*routes, upgrade]


def _require_readable_key(server: ModuleType) -> Callable[[Request], Awaitable[None]]:
    """The host compares keys with a function that raises for anything but ASCII; such a key is just a wrong one."""

    async def require_readable_key(request: Request) -> None:
        if server._api_key is not None and not request.headers.get("authorization", "").isascii():  # noqa: SLF001
            raise HTTPException(status_code=401, detail="Invalid API key")

    return require_readable_key
