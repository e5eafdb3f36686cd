"""How a stream ends, by how the engine ended. What the host's own stream says of it differs by release.

Before 0.6.0 a failure midway ends it with a bare ``[DONE]``; before 0.5.0 a good stream may end so as well, when the
last thing the model wrote was a call or a thought that the host's incremental parser did not take for one.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.scripted import Script, ScriptedHost
from tests.sse import StreamEvent, joined_deltas, terminal_response

pytestmark = pytest.mark.contract

TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}}, {"type": "custom", "name": "patch"}]
CALL = '<tool_call>{"name": "look", "arguments": {"at": "sky"}}</tool_call>'
CUSTOM_CALL = '<tool_call>{"name": "patch", "arguments": {"input": "+hi"}}</tool_call>'


async def ask(script: Script, **options: Any) -> tuple[int, dict[str, Any], list[StreamEvent]]:
    """Status and body of the plain answer, and the events of the streamed one, which were checked strictly."""
    with ScriptedHost(script, **options) as host:
        plain = await host.post(input="hi", tools=TOOLS)
        events = await host.stream(input="hi", tools=TOOLS)
    return plain.status_code, plain.json(), events


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


# --- Failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [[], ["Hel", "lo"], ["<think>", "hm"], ["Hm. ", CALL[:30]], [CALL, " "]],
    ids=["at once", "in a text", "in a thought", "in a call", "behind a call"],
)
async def test_an_engine_that_fails_midway(pieces: list[str]) -> None:
    """One ``response.failed``, after an ``error`` event, and never ``response.completed``; 500 without a stream."""
    script = Script([*pieces, "never"], error=RuntimeError("out of memory"), error_after=len(pieces))
    status, body, events = await ask(script, reasoning_parser="qwen3")
    assert status == 500
    assert body["error"]["code"] == "server_error"
    types = [event.type for event in events]
    assert types[-2:] == ["error", "response.failed"]
    assert "response.completed" not in types
    assert "never" not in joined_deltas(events)
    assert terminal_response(events)["error"]["code"] == "server_error"


@pytest.mark.parametrize("piece", ["Hello", CALL, ""], ids=["text", "call", "nothing"])
async def test_a_stream_of_an_engine_that_says_it_failed(piece: str) -> None:
    """``finish_reason: error`` is no end of an answer."""
    _, _, events = await ask(Script([piece], finish_reason="error"))
    assert events[-1].type == "response.failed"


@pytest.mark.parametrize(
    "piece",
    [
        "Hello",
        # Older hosts say ``tool_calls`` in its place, and nothing else of the failure.
        pytest.param(CALL, marks=pytest.mark.since("0.6.0")),
        "",
    ],
    ids=["text", "call", "nothing"],
)
async def test_a_whole_answer_of_an_engine_that_says_it_failed(piece: str) -> None:
    """Nor is it one without a stream."""
    status, body, _ = await ask(Script([piece], finish_reason="error"))
    assert status == 500
    assert body["error"]["code"] == "server_error"


# --- Good ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish_alone", [False, True], ids=["with the last piece", "alone"])
@pytest.mark.parametrize("cut", [1, 4, 1000], ids=["in characters", "in fours", "whole"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello.", ["message"]),
        (CALL, ["function_call"]),
        (f"Let me see.\n{CALL}", ["message", "function_call"]),
        (CALL + CALL.replace("sky", "sea"), ["function_call", "function_call"]),
        (CUSTOM_CALL, ["custom_tool_call"]),
        (f"{CALL}\nDone.", ["function_call", "message"]),
        ("", ["message"]),
    ],
    ids=["text", "call", "text and call", "two calls", "custom call", "call and text", "nothing"],
)
async def test_a_good_answer_is_completed(text: str, expected: list[str], cut: int, finish_alone: bool) -> None:
    """With the same items and token counts as without a stream, whether or not the host told a finish reason."""
    pieces = [text[place : place + cut] for place in range(0, len(text), cut)]
    script = Script(pieces, finish_alone=finish_alone, prompt_tokens=7, completion_tokens=5, cached_tokens=3)
    status, body, events = await ask(script)
    assert status == 200
    streamed = terminal_response(events)
    assert (body["status"], kinds(body)) == ("completed", expected)
    assert (streamed["status"], kinds(streamed)) == ("completed", expected)
    assert streamed["usage"] == body["usage"]
    assert streamed["usage"]["input_tokens"] == 7
    assert streamed["usage"]["output_tokens"] == 5
    assert streamed["usage"]["input_tokens_details"]["cached_tokens"] == 3


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["<think>", "hm", "</think>", "Yes."], ["reasoning", "message"]),
        (["<think>", "hm", "</think>", CALL], ["reasoning", "function_call"]),
        (["<think>", "I could <tool_call> it", "</think>", CALL], ["reasoning", "function_call"]),
        (["<think>", "hm", "</think>"], ["reasoning"]),
    ],
    ids=["text", "call", "talk about calls", "thought alone"],
)
@pytest.mark.parametrize("finish_alone", [False, True], ids=["with the last piece", "alone"])
async def test_a_good_answer_with_a_thought_is_completed(
    pieces: list[str], expected: list[str], finish_alone: bool
) -> None:
    """The tags are single tokens to the models that write them."""
    script = Script(pieces, finish_alone=finish_alone, prompt_tokens=7, cached_tokens=3)
    status, body, events = await ask(script, reasoning_parser="qwen3")
    assert status == 200
    streamed = terminal_response(events)
    assert (body["status"], kinds(body)) == ("completed", expected)
    assert (streamed["status"], kinds(streamed)) == ("completed", expected)
    assert streamed["usage"] == body["usage"]
    assert streamed["usage"]["input_tokens_details"]["cached_tokens"] == 3


@pytest.mark.parametrize("text", ["Hel", "Let me see.\n" + CALL[:-15]], ids=["text", "call"])
async def test_an_answer_that_was_cut_off_is_incomplete(text: str) -> None:
    """The token budget ended it, and the client is told so."""
    _, body, events = await ask(Script([text], finish_reason="length", cached_tokens=3))
    for response in (body, terminal_response(events)):
        assert response["usage"]["input_tokens_details"]["cached_tokens"] == 3
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert kinds(terminal_response(events)) == kinds(body)
    assert events[-1].type == "response.incomplete"
