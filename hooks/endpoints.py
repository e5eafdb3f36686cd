"""The routes that replace or join the host's, behind the host's own API key and rate limit."""

from __future__ import annotations

from typing import Any

from fastapi import Depends

from responses_plugin.hooks.chat import HostChat
from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import RoutePatch
from responses_plugin.routes import endpoints
from responses_plugin.service import ResponsesService
from responses_plugin.store.memory import MemoryStore


@hookimpl(trylast=True)
def responses_host_patches(host: Any) -> list[RoutePatch]:
    """One patch an endpoint; the service behind them lives as long as the patches do."""
    settings = host.settings
    service = ResponsesService(
        plugins=host.plugins,
        host=HostChat(host.server),
        store=MemoryStore(settings.max_stored_responses, settings.max_stored_bytes),
        keepalive_seconds=settings.keepalive_seconds,
    )
    guards = [Depends(host.server.verify_api_key), Depends(host.server.check_rate_limit)]
    return [
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
