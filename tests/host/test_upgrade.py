"""Clients that try WebSocket first are told at once to go on over HTTP."""

from __future__ import annotations

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from responses_plugin import routes
from tests.host.scripted import Script, ScriptedHost

pytestmark = pytest.mark.contract


def test_an_upgrade_is_refused_with_426():
    """Codex falls back silently on this status, and only after several attempts on any other."""
    with ScriptedHost(Script(["Hello."])) as host, host.serving() as url:
        with pytest.raises(InvalidStatus) as refused:
            connect(url.replace("http", "ws", 1) + "/v1/responses")
        assert refused.value.response.status_code == 426
        assert b"websocket_not_supported" in (refused.value.response.body or b"")
        answer = httpx.get(f"{url}/v1/responses")
    assert (answer.status_code, answer.json()["error"]["code"]) == (426, "websocket_not_supported")


def test_disabling_takes_the_route_away():
    """The host's list of routes is what it was."""
    host = ScriptedHost(Script(["Hello."]))
    before = list(host.app.router.routes)
    with host:
        assert any(getattr(route, "endpoint", None) is routes.refuse_websocket for route in host.app.router.routes)
    assert host.app.router.routes == before
