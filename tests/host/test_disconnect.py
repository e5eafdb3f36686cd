"""A client that goes away, under a real server: generation stops, and everything is as if it had never come.

On a Mac a forgotten generation blocks the machine for minutes, and a model that is not given back is never unloaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from responses_plugin.settings import Settings
from responses_plugin.store.memory import MemoryStore
from tests.host.leases import Leases
from tests.host.reading import streaming
from tests.host.scripted import SCRIPTED_MODEL, EngineCall, Gate, Script, ScriptedHost, wait_until_async
from tests.sse import joined_deltas, terminal_response

pytestmark = pytest.mark.contract

#: The host looks twice a second whether the client is there, and closes the engine's stream half a second later.
STOP_SECONDS = 3.0
JSON_FORMAT = {"format": {"type": "json_object"}}


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everything that is stored."""
    saved: list[Any] = []
    monkeypatch.setattr(MemoryStore, "save", lambda self, turn: saved.append(turn))
    return saved


@contextmanager
def held_host(gate: Gate, before: int, *, leases: Leases) -> Iterator[tuple[ScriptedHost, str]]:
    """A server whose engine waits in its first call before the piece ``before``; afterwards it just answers."""
    held = Script(["Hel", "lo"], gates={before: gate})
    options = Settings(keepalive_seconds=0)
    with (
        ScriptedHost(held, Script(["Fine."]), globals=leases.globals, options=options) as host,
        host.serving() as url,
    ):
        yield host, url


async def check_stopped(host: ScriptedHost, url: str, leases: Leases, saved: list[Any]) -> EngineCall:
    """The engine was stopped and given back once, nothing was stored, and the next request is served."""
    (call,) = host.engine.calls
    await wait_until_async(call.over.is_set, "the engine to be stopped", STOP_SECONDS)
    assert (call.aborted, call.finished) == (True, False)
    await wait_until_async(lambda: leases.released > 0, "the engine to be given back", STOP_SECONDS)
    assert not saved
    async with httpx.AsyncClient(base_url=url) as client:
        answer = await client.post("/v1/responses", json={"model": SCRIPTED_MODEL, "input": "hi"})
    assert answer.json()["output"][0]["content"][0]["text"] == "Fine."
    # The second request came last, so nothing of the first can still be under way.
    assert leases.counts == (2, 2)
    assert len(saved) == 1
    return call


# --- Going away ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [0, 1], ids=["prefill", "midway"])
@pytest.mark.parametrize(
    "body", [{}, {"stream": True}, {"stream": True, "text": JSON_FORMAT}], ids=["json", "sse", "structured sse"]
)
async def test_a_client_that_goes_away_stops_the_engine(body: dict[str, Any], before: int, saved: list[Any]) -> None:
    """Whether it waits for a whole answer, a stream, or a stream that has not begun since the host checks it first."""
    gate, leases = Gate(), Leases()
    with held_host(gate, before, leases=leases) as (host, url):
        async with httpx.AsyncClient(base_url=url) as client:
            request = asyncio.ensure_future(
                client.post("/v1/responses", json={"model": SCRIPTED_MODEL, "input": "hi", **body})
            )
            await wait_until_async(gate.reached.is_set, "the engine to generate")
            request.cancel()
        call = await check_stopped(host, url, leases, saved)
    assert call.emitted == before


@pytest.mark.parametrize("seen", ["response.created", "response.output_text.delta"])
async def test_a_client_that_stops_reading_stops_the_engine(seen: str, saved: list[Any]) -> None:
    """Also after it has read a part of the stream; the response that it has heard of is not there."""
    gate, leases = Gate(), Leases()
    with held_host(gate, 1, leases=leases) as (host, url):
        async with streaming(url) as stream:
            created = await stream.until("response.created")
            if seen != "response.created":
                await stream.until(seen)
            await wait_until_async(gate.reached.is_set, "the engine to generate")
        response_id = created.data["response"]["id"]
        await check_stopped(host, url, leases, saved)
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get(f"/v1/responses/{response_id}")).status_code == 404


async def test_a_client_that_goes_away_at_the_end_has_its_answer(saved: list[Any]) -> None:
    """What was generated to its end is stored, also if the client does not read the end."""
    leases = Leases()
    with ScriptedHost(Script(["Hello."]), globals=leases.globals) as host, host.serving() as url:
        async with streaming(url) as stream:
            await stream.until("response.completed")
        await wait_until_async(lambda: leases.released == 1, "the engine to be given back", STOP_SECONDS)
    (turn,) = saved
    assert turn.response["status"] == "completed"


async def test_other_clients_are_not_disturbed(saved: list[Any]) -> None:
    """One client goes, the stream of another goes on."""
    gate, leases = Gate(), Leases()
    scripts = [Script(["Hel", "lo"], gates={1: gate}) for _ in range(2)]
    with ScriptedHost(*scripts, globals=leases.globals) as host, host.serving() as url:
        async with streaming(url) as stays:
            await stays.until("response.output_text.delta")
            async with streaming(url) as goes:
                await goes.until("response.output_text.delta")
            first, second = host.engine.calls
            await wait_until_async(second.over.is_set, "the engine to be stopped", STOP_SECONDS)
            gate.open()
            events = await stays.rest()
        await wait_until_async(lambda: leases.counts == (2, 2), "the engine to be given back", STOP_SECONDS)
    assert (first.finished, second.aborted) == (True, True)
    assert joined_deltas(events) == "Hello"
    assert [turn.response["id"] for turn in saved] == [terminal_response(events)["id"]]


# --- In between ------------------------------------------------------------------------------------------------------


async def leave_when_sent(app: Any, message_type: str) -> None:
    """Ask for a stream in process, and go away when the first message of this type is being sent."""
    gone = asyncio.Event()
    body = b'{"model": "scripted", "input": "hi", "stream": true}'
    inbox = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if inbox:
            return inbox.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        # As uvicorn does it: what cannot be sent is waited for until the client takes it or is gone, and then dropped.
        if message["type"] == message_type and not gone.is_set():
            gone.set()
            for _ in range(100):
                await asyncio.sleep(0)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/responses",
        "raw_path": b"/v1/responses",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"host"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    await app(scope, receive, send)


@pytest.mark.parametrize("blocked", ["http.response.start", "http.response.body"])
async def test_a_client_that_takes_nothing_gives_the_engine_back(blocked: str, saved: list[Any]) -> None:
    """A client may go before the first byte is out, when the engine is lent already and not yet asked."""
    leases = Leases()
    with ScriptedHost(Script(["Hello."]), globals=leases.globals) as host:
        await leave_when_sent(host.app, blocked)
        assert leases.counts == (1, 1)
        assert not saved
        assert (await host.post(input="hi")).status_code == 200


# --- Shutting down ---------------------------------------------------------------------------------------------------


async def test_a_server_that_shuts_down_finishes_its_streams(saved: list[Any]) -> None:
    """The server waits for what is under way, and a stream of ours ends as if nothing was."""
    gate, leases = Gate(), Leases()
    script = Script(["Hel", "lo"], gates={1: gate})
    with ScriptedHost(script, globals=leases.globals) as host, host.running_server() as (url, server):
        async with streaming(url) as stream:
            await stream.until("response.output_text.delta")
            server.should_exit = True
            async with httpx.AsyncClient(base_url=url) as client:
                await wait_until_async(lambda: not server.servers[0].is_serving(), "the server to turn clients away")
                with pytest.raises(httpx.ConnectError):
                    await client.get("/health")
            gate.open()
            events = await stream.rest()
    assert (events[-1].type, joined_deltas(events)) == ("response.completed", "Hello")
    assert leases.counts == (1, 1)
    assert len(saved) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_is_made_to_end_stops_the_engine(stream: bool, saved: list[Any]) -> None:
    """Where uvicorn is told not to wait, requests are cancelled: the engine is stopped and given back."""
    gate, leases = Gate(), Leases()
    script = Script(["Hel", "lo"], gates={1: gate})
    with (
        ScriptedHost(script, globals=leases.globals) as host,
        host.running_server(timeout_graceful_shutdown=0) as (url, server),
    ):
        async with httpx.AsyncClient(base_url=url) as client:
            body = {"model": SCRIPTED_MODEL, "input": "hi", "stream": stream}
            request = asyncio.ensure_future(client.post("/v1/responses", json=body))
            await wait_until_async(gate.reached.is_set, "the engine to generate")
            server.should_exit = True
            await asyncio.wait([request])
            # uvicorn's own words for it: an error before the first byte, a broken connection after it.
            if stream:
                assert isinstance(request.exception(), httpx.RemoteProtocolError)
            else:
                assert request.result().status_code == 500
        (call,) = host.engine.calls
        await wait_until_async(call.over.is_set, "the engine to be stopped", STOP_SECONDS)
    assert call.aborted
    assert leases.counts == (1, 1)
    assert not saved
