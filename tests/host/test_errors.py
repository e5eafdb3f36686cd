"""What a client hears when generation fails: the right code, an HTTP status or one ``response.failed``, never prose."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import HTTPException
from vllm_mlx.engine import base as host_engine

from tests.host.leases import Leases
from tests.host.scripted import Script, ScriptedHost
from tests.sse import StreamEvent, joined_deltas, read_stream, terminal_response

pytestmark = pytest.mark.contract

SECRET = "/Users/me/secret-model"

# Older releases raise neither.
EngineBusy = getattr(host_engine, "EngineBusy", RuntimeError)
EngineStopped = getattr(host_engine, "EngineStopped", RuntimeError)


def failure_of(events: list[StreamEvent]) -> dict[str, Any]:
    """The error of a stream that failed, told twice; that it ends with one terminal event was checked on reading."""
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    response = terminal_response(events)
    assert response["status"] == "failed"
    assert set(response["error"]) == {"code", "message"}
    assert {key: events[-2].data[key] for key in ("code", "message")} == response["error"]
    assert response["completed_at"] is None
    return dict(response["error"])


async def fail(script: Script, **body: Any) -> tuple[tuple[int, dict[str, Any]], list[StreamEvent]]:
    """Run a script that fails: HTTP status and error of the plain answer, and the events of the streamed one.

    Whatever happens the engine is given back once for each, nothing is stored, and the next request is served.
    """
    leases = Leases()
    with ScriptedHost(script, script, Script(["Fine."]), globals=leases.globals) as host:
        plain = await host.post(input="hi", **body)
        events = await host.stream(input="hi", **body)
        assert leases.counts == (2, 2)
        response_id = terminal_response(events)["id"]
        async with host.client() as client:
            assert (await client.get(f"/v1/responses/{response_id}")).status_code == 404
        assert (await host.post(input="hi")).status_code == 200
    error = plain.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return (plain.status_code, error), events


# --- Failing engines -------------------------------------------------------------------------------------------------


async def test_an_engine_that_fails_at_once() -> None:
    """500 server_error; the text of the exception stays in the log, since it may tell of the server."""
    (status, error), events = await fail(Script(error=RuntimeError(f"no weights at {SECRET}")))
    assert (status, error["type"], error["code"], error["param"]) == (500, "server_error", "server_error", None)
    failure = failure_of(events)
    assert failure["code"] == "server_error"
    assert SECRET not in error["message"] + failure["message"]


async def test_an_engine_that_fails_midway() -> None:
    """What came before the failure was shown and is in the response, as incomplete; its item is not done."""
    script = Script(["Hel", "lo", "!"], error=RuntimeError("boom"), error_after=2)
    (status, error), events = await fail(script)
    assert (status, error["code"]) == (500, "server_error")
    assert failure_of(events)["code"] == "server_error"
    assert joined_deltas(events) == "Hello"
    (message,) = terminal_response(events)["output"]
    assert (message["status"], message["content"][0]["text"]) == ("incomplete", "Hello")
    assert "response.output_item.done" not in [event.type for event in events]


@pytest.mark.parametrize(
    "error",
    [
        EngineStopped("SimpleEngine stopped while generation was in flight"),
        MemoryError(),
        KeyError("x"),
        StopAsyncIteration("an iterator of the engine ended"),
        ValueError(""),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_any_exception_of_an_engine_is_a_failure(error: Exception) -> None:
    """Whatever its type, and however little it says."""
    (status, refused), events = await fail(Script(["Hi"], error=error, error_after=1))
    assert (status, refused["code"]) == (500, "server_error")
    assert failure_of(events)["code"] == "server_error"
    assert refused["message"]


@pytest.mark.parametrize("pieces", [(), ("Hel", "lo")], ids=["at once", "midway"])
async def test_an_engine_that_reports_an_error(pieces: tuple[str, ...]) -> None:
    """The schedulers of the host report failures as a finish reason: that is no answer."""
    script = Script(pieces, finish_reason="error", finish_alone=True)
    (status, error), events = await fail(script)
    assert (status, error["type"], error["code"]) == (500, "server_error", "server_error")
    assert failure_of(events)["code"] == "server_error"
    assert joined_deltas(events) == "".join(pieces)


async def test_a_request_that_the_host_cancels() -> None:
    """503, or a failed stream: not a connection that just ends.

    Python before 3.11 cannot tell it from the end of the server, and lets the connection end.
    """
    script = Script(["a", "b"], error=asyncio.CancelledError(), error_after=1)
    if not hasattr(asyncio.Task, "cancelling"):
        with ScriptedHost(script) as host, pytest.raises(asyncio.CancelledError):
            await host.post(input="hi")
        return
    (status, error), events = await fail(script)
    assert (status, error["type"], error["code"]) == (503, "server_error", "service_unavailable")
    assert failure_of(events)["code"] == "service_unavailable"


TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CALL = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'


@pytest.mark.parametrize(
    "script",
    [
        Script([CALL, "more"], error=RuntimeError("boom"), error_after=1),
        # Older hosts say ``tool_calls`` in its place to those who ask for no stream.
        pytest.param(Script([CALL], finish_reason="error", finish_alone=True), marks=pytest.mark.since("0.6.0")),
    ],
    ids=["exception", "finish reason"],
)
async def test_a_failure_after_a_whole_call_is_a_failure(script: Script) -> None:
    """Clients may have begun with the call, but must not take the turn for finished."""
    (status, _), events = await fail(script, tools=[TOOL])
    assert status == 500
    failure_of(events)
    assert [item["type"] for item in terminal_response(events)["output"]] == ["function_call"]


# --- Busy engines ----------------------------------------------------------------------------------------------------

BUSY = EngineBusy("SimpleEngine serialized route is busy; request_id=r1; active=none; waiters=0; retry later")


# The oldest release has no such exception.
@pytest.mark.since("0.4.0")
async def test_a_busy_engine() -> None:
    """503 server_is_overloaded: Codex says that the model is at capacity, instead of retrying thirty times."""
    (status, error), events = await fail(Script(error=BUSY))
    assert (status, error["type"], error["code"]) == (503, "server_error", "server_is_overloaded")
    assert failure_of(events)["code"] == "server_is_overloaded"


# --- Refusals of the host --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [
        (HTTPException(400, "max_tokens exceeds server limit (10)"), 400, None),
        (HTTPException(422, "logit_bias token id must be an integer string: 'x'"), 400, None),
        (HTTPException(503, "Model not loaded"), 503, "service_unavailable"),
        (HTTPException(500, {"message": "Out of memory", "error": "oom"}), 500, "oom"),
        (HTTPException(418, "teapot"), 418, None),
    ],
)
async def test_what_the_host_says_is_passed_on(refusal: HTTPException, status: int, code: str | None) -> None:
    """Its status, its sentence and, where it has one, its code; an unprocessable request is a bad one."""
    (got, error), events = await fail(Script(error=refusal))
    assert (got, error["code"]) == (status, code)
    said = refusal.detail["message"] if isinstance(refusal.detail, dict) else refusal.detail
    assert error["message"] == said
    assert failure_of(events) == {"code": code or "server_error", "message": said}


async def test_more_tokens_than_the_host_allows() -> None:
    """The operator's cap is a 400 that names it, JSON also where a stream was asked for."""
    with ScriptedHost(globals={"_max_request_tokens": 100}) as host:
        for stream in (False, True):
            response = await host.post(input="hi", max_output_tokens=101, stream=stream)
            assert response.status_code == 400
            assert "100" in response.json()["error"]["message"]
        assert not host.engine.calls


# --- Context overflow ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_http", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        # The check of mlx-vlm's server module. The host's own engines have none: they generate until memory runs out.
        "Request needs 9000 context tokens (8000 prompt + 1000 max generation), but MAX_KV_SIZE is 8192.",
        # What other engines and servers say, and a host may come to say.
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "Prompt is too long: 9000 tokens > 8192 maximum",
        "the prompt exceeds the context window",
        "sequence of 9000 tokens exceeds max_position_embeddings (8192)",
        "Token indices sequence length is longer than the specified maximum sequence length (9000 > 8192)",
        "context_length_exceeded",
        "Prompt length 9000 exceeds KV cache capacity 8192",
    ],
)
async def test_a_context_that_is_too_long(words: str, as_http: bool) -> None:
    """400 context_length_exceeded: Codex compacts its history on this code, and only on it."""
    error: Exception = HTTPException(500, words) if as_http else ValueError(words)
    (status, refused), events = await fail(Script(error=error))
    assert (status, refused["code"], refused["param"]) == (400, "context_length_exceeded", "input")
    assert refused["type"] == "invalid_request_error"
    assert refused["message"] == words
    assert failure_of(events) == {"code": "context_length_exceeded", "message": words}


@pytest.mark.parametrize(
    "words",
    [
        "Rate limit exceeded for tool 'x'",
        "[metal::malloc] Resource limit (499000) exceeded.",
        "Tool call buffer exceeded 1048576 bytes",
        "Cannot load 'big' within memory budget (1.0 GB)",
        "Cache entry too large: 12.0MB exceeds limit 10.0MB",
    ],
)
async def test_other_limits_are_not_the_context(words: str) -> None:
    """A client that compacted its history for these would lose it for nothing."""
    (status, error), events = await fail(Script(error=RuntimeError(words)))
    assert (status, error["code"]) == (500, "server_error")
    assert failure_of(events)["code"] == "server_error"


# --- Where a stream may still be refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_bad_field_of_the_hosts_own(stream: bool) -> None:
    """Values that the host's chat request does not take are a 400 that names the field as the client wrote it."""
    with ScriptedHost() as host:
        response = await host.post(input="hi", stream=stream, top_k="many")
        assert not host.engine.calls
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "top_k"


async def test_a_failing_stream_is_well_formed_to_the_last_byte() -> None:
    """After ``response.failed`` nothing comes, not even the chat protocol's ``[DONE]``."""
    with ScriptedHost(Script(["Hi"], error=RuntimeError("boom"), error_after=1)) as host:
        response = await host.post(input="hi", stream=True)
    assert response.status_code == 200
    assert b"[DONE]" not in response.content
    assert read_stream(response.content)[-1].type == "response.failed"
