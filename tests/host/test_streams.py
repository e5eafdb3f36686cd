"""How a stream behaves over time, under a real server: it begins at once, stays alive, and ends once."""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import vllm_mlx.server as host_server

from responses_plugin import service
from responses_plugin.settings import Settings
from tests.host.lazy import LoadedEngine, lazy_globals
from tests.host.leases import Leases
from tests.host.reading import EventReader, streaming
from tests.host.scripted import SCRIPTED_MODEL, Gate, Script, ScriptedHost, wait_until_async
from tests.sse import StreamEvent, joined_deltas, read_stream, terminal_response

pytestmark = pytest.mark.contract

FAST = Settings(keepalive_seconds=0.1)
JSON_FORMAT = {"format": {"type": "json_object"}}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CALL = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'


# --- At once ---------------------------------------------------------------------------------------------------------


async def test_created_comes_before_the_engine_says_anything() -> None:
    """``response.created`` and ``response.in_progress`` do not wait for the prompt to be read, which takes minutes."""
    gate = Gate()
    with ScriptedHost(Script(["Hi"], gates={0: gate})) as host, host.serving() as url:
        async with streaming(url) as stream:
            await stream.until("response.in_progress")
            assert stream.types == ["response.created", "response.in_progress"]
            await wait_until_async(gate.reached.is_set, "the engine to be asked")
            assert host.engine.calls[0].emitted == 0
            gate.open()
            events = await stream.rest()
    assert events[-1].type == "response.completed"


async def test_created_comes_while_the_model_is_loading() -> None:
    """A host that loads its model on the first request has the stream begin before there is an engine."""
    loading = Gate()
    engine = LoadedEngine([Script(["Hi"])], loading)
    with ScriptedHost(options=FAST, globals=lazy_globals([engine])) as host, host.serving() as url:
        async with streaming(url) as stream:
            await stream.until("keepalive")
            await stream.until("keepalive")
            assert stream.types[:2] == ["response.created", "response.in_progress"]
            assert not engine.calls
            loading.open()
            events = await stream.rest()
    assert joined_deltas(events) == "Hi"


async def test_created_comes_while_the_host_checks_a_structured_answer() -> None:
    """The host lets JSON out when all of it has been checked; the client hears that it is being worked on."""
    gate = Gate()
    script = Script(['{"a":', " 1}"], gates={1: gate})
    with ScriptedHost(script, options=FAST) as host, host.serving() as url:
        async with streaming(url, text=JSON_FORMAT) as stream:
            await stream.until("keepalive")
            await stream.until("keepalive")
            assert host.engine.calls[0].emitted == 1
            gate.open()
            events = await stream.rest()
    assert set(stream.types[2:4]) == {"keepalive"}
    assert joined_deltas(events) == '{"a": 1}'


async def test_pieces_come_as_they_are_generated() -> None:
    """Nothing waits for the end of the answer, or for the next piece."""
    gates = {1: Gate(), 2: Gate(), 3: Gate()}
    with ScriptedHost(Script(["One", " two", " three"], gates=gates)) as host, host.serving() as url:
        async with streaming(url) as stream:
            for before, piece in enumerate(["One", " two", " three"], start=1):
                delta = await stream.until("response.output_text.delta")
                assert delta.data["delta"] == piece
                assert host.engine.calls[0].emitted == before
                gates[before].open()
            await stream.rest()


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_no_header_says_that_another_model_answers(stream: bool) -> None:
    """Codex would warn its user that the request was flagged, and the model demoted."""
    with ScriptedHost() as host:
        answer = await host.post(input="hi", stream=stream)
    assert answer.status_code == 200
    assert answer.headers.get("openai-model", SCRIPTED_MODEL) == SCRIPTED_MODEL


# --- Keepalive -------------------------------------------------------------------------------------------------------


async def keepalives(stream: EventReader, number: int) -> list[StreamEvent]:
    return [await stream.until("keepalive") for _ in range(number)]


async def test_a_silent_stream_is_kept_alive() -> None:
    """A data event at the interval that was set, since Codex does not count comments as life; none before created.

    They are numbered with all others, which the reader checks, also while an item is open.
    """
    prefill, midway = Gate(), Gate()
    script = Script(["Hel", "lo"], gates={0: prefill, 1: midway})
    with ScriptedHost(script, options=Settings(keepalive_seconds=0.2)) as host, host.serving() as url:
        async with streaming(url) as stream:
            before = await keepalives(stream, 3)
            prefill.open()
            await stream.until("response.output_text.delta")
            within = await keepalives(stream, 2)
            midway.open()
            events = await stream.rest()
    assert stream.types[:3] == ["response.created", "response.in_progress", "keepalive"]
    assert joined_deltas(events) == "Hello"
    assert set(before[0].data) == {"type", "sequence_number"}
    waits = [
        later.arrived - earlier.arrived for earlier, later in [*itertools.pairwise(before), (within[0], within[1])]
    ]
    assert all(wait > 0.15 for wait in waits), waits


async def test_a_busy_stream_needs_no_keepalive() -> None:
    """As long as something comes within the interval nothing is added."""
    with ScriptedHost(Script(["a"] * 20, delay=0.02), options=Settings(keepalive_seconds=5)) as host:
        events = await host.stream(input="hi")
    assert "keepalive" not in [event.type for event in events]


@pytest.mark.parametrize(("seconds", "expected"), [(0, False), (0.05, True)])
async def test_keepalive_can_be_switched_off(seconds: float, expected: bool) -> None:
    """0 sends none, however long it takes."""
    script = Script(["Hel", "lo"], delay=0.4)
    with ScriptedHost(script, options=Settings(keepalive_seconds=seconds)) as host:
        events = await host.stream(input="hi")
    assert ("keepalive" in [event.type for event in events]) is expected


@pytest.mark.parametrize("failure", [None, RuntimeError("boom")])
async def test_nothing_follows_the_end(failure: Exception | None) -> None:
    """A connection that is kept open for the next request stays silent after the terminal event."""
    script = Script(["Hi"], error=failure, error_after=1)
    with ScriptedHost(script, options=Settings(keepalive_seconds=0.01)) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url) as client:
            for _ in range(3):
                body = {"model": SCRIPTED_MODEL, "input": "hi", "stream": True}
                response = await client.post("/v1/responses", json=body)
                assert read_stream(response.content)[-1].type == f"response.{'failed' if failure else 'completed'}"


async def test_the_hosts_heartbeats_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comments that the host writes to find out about its client are for nobody to read."""
    guard = host_server._disconnect_guard
    monkeypatch.setattr(
        host_server, "_disconnect_guard", lambda *args, **kwargs: guard(*args, **kwargs, heartbeat_interval=0.05)
    )
    with ScriptedHost(Script(["Hel", "lo"], delay=0.3)) as host:
        events = await host.stream(input="hi")
    assert joined_deltas(events) == "Hello"


# --- Time is up ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_request", [True, False], ids=["field", "default"])
async def test_a_whole_answer_that_takes_too_long(by_request: bool) -> None:
    """504 after the request's own ``timeout`` or the server's, and the engine is stopped and given back."""
    gate, leases = Gate(), Leases()
    timeout: dict[str, Any] = {"timeout": 0.3} if by_request else {}
    default = {} if by_request else {"_default_timeout": 0.3}
    with ScriptedHost(Script(["Hi"], gates={0: gate}), globals={**default, **leases.globals}) as host:
        response = await host.post(input="hi", **timeout)
        chat = await host.post("/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], **timeout)
        assert [call.aborted for call in host.engine.calls] == [True, True]
    assert (response.status_code, chat.status_code) == (504, 504)
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("server_error", "timeout")
    assert error["message"] == "Request timed out after 0.3 seconds"
    assert leases.counts == (2, 2)


@pytest.mark.parametrize("by_request", [True, False], ids=["field", "default"])
@pytest.mark.parametrize(
    ("pieces", "before"), [(["Hi"], 0), (["Hel", "lo"], 1), ([CALL, "more"], 1)], ids=["prefill", "midway", "call"]
)
async def test_a_stream_that_takes_too_long(pieces: list[str], before: int, by_request: bool) -> None:
    """The host ends a stream that falls silent without a word: one ``response.failed`` says so.

    Also where a call came before, which on old hosts may be all there is to tell a good end by.
    """
    gate, leases = Gate(), Leases()
    script = Script(pieces, gates={before: gate})
    timeout = {"timeout": 0.3} if by_request else {}
    default = {} if by_request else {"_default_timeout": 0.3}
    with ScriptedHost(script, globals={**default, **leases.globals}) as host, host.serving() as url:
        async with streaming(url, tools=[TOOL], **timeout) as stream:
            events = await stream.rest()
        (call,) = host.engine.calls
        await wait_until_async(call.over.is_set, "the engine to be stopped", 3)
        await wait_until_async(lambda: leases.counts == (1, 1), "the engine to be given back", 3)
    assert call.aborted
    assert events[-1].type == "response.failed"
    assert terminal_response(events)["error"]["code"] == "timeout"


async def test_a_structured_stream_that_takes_too_long() -> None:
    """``response.failed``, whether or not the host lets JSON out before all of it was checked."""
    script = Script(['{"a": ', "1}"], gates={1: Gate()})
    with ScriptedHost(script) as host:
        events = await host.stream(input="hi", text=JSON_FORMAT, timeout=0.8)
    assert [event.type for event in events] == ["response.created", "response.in_progress", "error", "response.failed"]
    assert terminal_response(events)["error"]["code"] == "timeout"


# Older hosts begin every stream before the engine has said anything.
@pytest.mark.since("0.5.0")
async def test_a_structured_stream_that_is_refused_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON 504 while there is a status to choose, and the time that was allowed is told, as it is later."""
    script = Script(['{"a": ', "1}"], gates={1: Gate()})
    with ScriptedHost(script) as host:
        late = await host.stream(input="hi", text=JSON_FORMAT, timeout=0.8)
        monkeypatch.setattr(service, "_REFUSAL_SECONDS", 20)
        early = await host.post(input="hi", stream=True, text=JSON_FORMAT, timeout=0.2)
    assert (early.status_code, early.json()["error"]["code"]) == (504, "timeout")
    assert terminal_response(late)["error"] == {"code": "timeout", "message": "Request timed out after 0.8 seconds"}


async def test_a_model_that_loads_too_slowly() -> None:
    """The time that loading takes counts, and the next request finds the model."""
    loading = Gate()
    engine = LoadedEngine([Script(["Hi"])], loading)
    again = LoadedEngine([Script(["Hi"])])
    with ScriptedHost(globals=lazy_globals([engine, again])) as host, host.serving() as url:
        async with streaming(url, timeout=0.8) as stream:
            events = await stream.rest()
        assert terminal_response(events)["error"]["code"] == "timeout"
        async with httpx.AsyncClient(base_url=url) as client:
            body = {"model": SCRIPTED_MODEL, "input": "hi"}
            answer = await client.post("/v1/responses", json=body)
    assert answer.json()["output"][0]["content"][0]["text"] == "Hi"


# Older hosts count from the beginning.
@pytest.mark.since("0.4.1")
async def test_a_stream_that_goes_on_is_not_stopped() -> None:
    """The limit is on silence, as on the chat endpoint: an answer may take longer than that as a whole."""
    with ScriptedHost(Script(["a"] * 12, delay=0.1)) as host:
        began = time.monotonic()
        events = await host.stream(input="hi", timeout=0.6)
    assert time.monotonic() - began > 0.6
    assert events[-1].type == "response.completed"


@pytest.mark.parametrize("timeout", ["soon", [1]])
async def test_a_timeout_that_is_no_number_is_refused(timeout: Any) -> None:
    """As the chat endpoint refuses it, in our shape."""
    with ScriptedHost() as host:
        response = await host.post(input="hi", timeout=timeout)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "timeout")


# --- Streams of older releases ---------------------------------------------------------------------------------------

Chunks = AsyncIterator[str]


@pytest.fixture
def rewrite_chunks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Chunks], Chunks]], None]:
    """Have the host's chunks rewritten on their way, so that they are those of an older release."""

    def install(rewrite: Callable[[Chunks], Chunks]) -> None:
        original = host_server.stream_chat_completion

        @functools.wraps(original)
        def stream(*args: Any, **kwargs: Any) -> Chunks:
            return rewrite(original(*args, **kwargs))

        monkeypatch.setattr(host_server, "stream_chat_completion", stream)

    return install


async def _swallow_failure(chunks: Chunks) -> Chunks:
    """Before 0.6.0 a stream that failed ended with ``[DONE]``, and with no word of the failure."""
    try:
        async for chunk in chunks:
            yield chunk
    except RuntimeError:
        yield "data: [DONE]\n\n"


async def _lose_finish_reason(chunks: Chunks) -> Chunks:
    """Before 0.5.0 a parser could swallow the chunk with the finish reason."""
    async for chunk in chunks:
        yield re.sub(r'"finish_reason":"\w+"', '"finish_reason":null', chunk)


@pytest.mark.parametrize("pieces", [[], ["Hel", "lo"], [CALL]], ids=["nothing", "text", "call"])
async def test_a_failure_that_the_host_does_not_mention(
    pieces: list[str], rewrite_chunks: Callable[[Callable[[Chunks], Chunks]], None]
) -> None:
    """The engine was watched, so the failure is known with its reason."""
    rewrite_chunks(_swallow_failure)
    script = Script([*pieces, "never"], error=RuntimeError("prompt is too long"), error_after=len(pieces))
    with ScriptedHost(script) as host:
        events = await host.stream(input="hi", tools=[TOOL])
    assert events[-1].type == "response.failed"
    assert terminal_response(events)["error"]["code"] == "context_length_exceeded"


async def test_a_bare_end_is_a_failure(rewrite_chunks: Callable[[Callable[[Chunks], Chunks]], None]) -> None:
    """Text was broken off if neither the host nor the engine says that it has finished."""
    rewrite_chunks(_lose_finish_reason)
    with ScriptedHost(Script(["Hel", "lo"], finish_reason=None, output_fields={"finished": False})) as host:
        events = await host.stream(input="hi")
    assert events[-1].type == "response.failed"
    assert terminal_response(events)["error"]["code"] == "server_error"
    assert joined_deltas(events) == "Hello"


@pytest.mark.parametrize("reason", ["stop", None])
async def test_calls_without_a_finish_reason_are_complete(
    reason: str | None, rewrite_chunks: Callable[[Callable[[Chunks], Chunks]], None]
) -> None:
    """A good stream of calls may lack it, and agents must get them."""
    rewrite_chunks(_lose_finish_reason)
    with ScriptedHost(Script([CALL], finish_reason=reason)) as host:
        events = await host.stream(input="hi", tools=[TOOL])
    assert events[-1].type == "response.completed"
    (item,) = terminal_response(events)["output"]
    assert (item["type"], item["status"]) == ("function_call", "completed")


@pytest.mark.parametrize("reason", ["stop", "length", None])
async def test_an_end_that_the_host_has_lost_counts(
    reason: str | None, rewrite_chunks: Callable[[Callable[[Chunks], Chunks]], None]
) -> None:
    """The engine was watched, so it is known that it has finished, and why; without a reason it came to its end."""
    rewrite_chunks(_lose_finish_reason)
    with ScriptedHost(Script(["Hel", "lo"], finish_reason=reason)) as host:
        events = await host.stream(input="hi")
    assert events[-1].type == ("response.incomplete" if reason == "length" else "response.completed")
    assert terminal_response(events)["usage"]["output_tokens"] == 2


async def test_an_error_that_the_host_takes_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 0.6.0 the finish reason ``error`` came with status 200."""
    monkeypatch.setattr(host_server, "_raise_if_generation_error", lambda output: None, raising=False)
    for pieces in ([], ["Hel"]):
        with ScriptedHost(Script(pieces, finish_reason="error", finish_alone=True)) as host:
            plain = await host.post(input="hi", tools=[TOOL])
            events = await host.stream(input="hi", tools=[TOOL])
        assert (plain.status_code, plain.json()["error"]["code"]) == (500, "server_error")
        assert events[-1].type == "response.failed"
