"""openai-js: create, streams, the stream helper, zod, stored responses and errors."""

from __future__ import annotations

from typing import Any

import pytest
from vllm_mlx.engine.base import EngineBusy

from tests.clients.node import run_job
from tests.clients.scripts import calls, says
from tests.host.scripted import EngineCall, Script, ScriptedHost
from tests.images import data_url

EVERY_WAY = pytest.mark.parametrize("way", ["create", "streamed", "helper"])
RED, BLUE = data_url("red"), data_url("blue")
LOOK = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    "strict": False,
}
RUN = {"type": "custom", "name": "run"}


def do(job: str, *scripts: Script, **options: Any) -> tuple[dict[str, Any], list[EngineCall]]:
    """What the client got, and the calls of the engine."""
    with ScriptedHost(*scripts) as host, host.serving() as url:
        return run_job("openai", job, url, **options), host.engine.calls


def text_of(response: dict[str, Any]) -> str:
    """The client adds ``output_text`` to some responses only."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for message in messages for part in message["content"])


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@EVERY_WAY
def test_an_answer(way: str) -> None:
    """Instructions and input reach the model, its answer and usage reach the client."""
    request = {"instructions": "Be brief."}
    seen, (call,) = do("conversation", says("Ten past nine."), way=way, turns=[[user("What time?")]], request=request)
    (response,) = seen["responses"]
    assert (response["status"], text_of(response)) == ("completed", "Ten past nine.")
    assert response["usage"]["total_tokens"] > 0
    assert call.messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What time?"}]


def test_the_helper_accumulates() -> None:
    """Its events come in pieces, and its snapshots are what was sent so far."""
    seen, _ = do("events", says("One, two, three."), request={"input": "Count."})
    assert len(seen["seen"]) > 1
    assert "".join(delta for delta, _ in seen["seen"]) == seen["seen"][-1][1] == seen["text"] == "One, two, three."


@EVERY_WAY
def test_functions_with_images(way: str) -> None:
    """Two calls at once, each answered by an image, after an image of the user: all of it reaches the engine."""
    script = calls(("look", {"place": "Łódź"}), ("look", {"place": "Rome"}), before="Now. ")
    turn = [user([{"type": "input_text", "text": "?"}, {"type": "input_image", "image_url": RED, "detail": "auto"}])]
    reply = {
        "type": "function_call_output",
        "output": [{"type": "input_image", "image_url": BLUE, "detail": "auto"}],
    }
    seen, (first, second) = do(
        "conversation", script, says("Blue."), way=way, turns=[turn, []], request={"tools": [LOOK]}, reply=reply
    )
    types = [item["type"] for item in seen["responses"][0]["output"]]
    assert types == ["message", "function_call", "function_call"]
    assert text_of(seen["responses"][1]) == "Blue."
    assert [tool["function"]["name"] for tool in first.tools or []] == ["look"]
    made = [tool_call for message in second.messages for tool_call in message.get("tool_calls", [])]
    assert [tool_call["function"]["arguments"] for tool_call in made] == [{"place": "Łódź"}, {"place": "Rome"}]
    contents = [message["content"] for message in second.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    assert [part["image_url"]["url"] for part in parts if part["type"] == "image_url"] == [RED, BLUE, BLUE]


@EVERY_WAY
def test_custom_tools(way: str) -> None:
    """Free text arrives as it is, and goes back as the call that the model made."""
    script = calls(("run", {"input": 'print("é")\n'}))
    reply = {"type": "custom_tool_call_output", "output": "é"}
    seen, (_, second) = do(
        "conversation",
        script,
        says("Ran."),
        way=way,
        turns=[[user("Run.")], []],
        request={"tools": [RUN]},
        reply=reply,
    )
    (item,) = seen["responses"][0]["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "run", 'print("é")\n')
    _, turn, told = second.messages
    assert turn["tool_calls"][0]["function"] == {"name": "run", "arguments": {"input": 'print("é")\n'}}
    assert (told["role"], told["content"]) == ("tool", "é")


def test_parse() -> None:
    """A zod schema is the form of the answer, at once and streamed."""
    seen, _ = do("parse", says('{"name": "Łódź", "people": 670000}'))
    assert seen["parsed"] == [{"name": "Łódź", "people": 670000}] * 2


@EVERY_WAY
def test_stored_responses(way: str) -> None:
    """A response can be continued, read and forgotten."""
    seen, (_, second) = do("stored", says("Hello."), way=way)
    assert seen["read"]["id"] == seen["first"]["id"] == seen["second"]["previous_response_id"]
    assert seen["read"]["output_text"] == "Hello."
    assert seen["gone"] == "NotFoundError"
    assert [message["content"] for message in second.messages] == ["Hi.", "Hello.", "And?"]


@pytest.mark.parametrize("way", ["create", "helper"])
@pytest.mark.parametrize(
    ("options", "request_", "name", "code"),
    [
        ({}, {"temperature": "warm"}, "BadRequestError", "invalid_type"),
        ({"api_key": "other"}, {}, "AuthenticationError", None),
        ({}, {"model": "gpt-0"}, "NotFoundError", "model_not_found"),
    ],
    ids=["bad type", "key", "model"],
)
def test_refusals(options: dict[str, Any], request_: dict[str, Any], name: str, code: str | None, way: str) -> None:
    """Each is the class that the client has for it, also where a stream was due."""
    with ScriptedHost(says("Hello."), **options) as host, host.serving() as url:
        seen = run_job("openai", "conversation", url, way=way, turns=[[user("hi")]], request=request_)
        assert not host.engine.calls
    assert seen["error"]["name"] == name
    assert seen["error"]["message"]
    if code is not None:
        assert seen["error"]["code"] == code


@EVERY_WAY
def test_failures(way: str) -> None:
    """An engine that breaks is an exception, never a shorter answer."""
    script = says("Hello, you.", error=EngineBusy("busy"), error_after=1)
    seen, _ = do("conversation", script, way=way, turns=[[user("hi")]], request={})
    error = seen["error"]
    assert error["code"] == "server_is_overloaded"
    if way == "create":
        assert (error["name"], error["status"]) == ("InternalServerError", 503)


def test_a_client_that_goes_away() -> None:
    """Aborting its stream ends the generation."""
    with ScriptedHost(says("word " * 500, delay=0.02)) as host, host.serving() as url:
        seen = run_job("openai", "abort", url)
        assert host.engine.calls[0].over.wait(10)
    assert seen["error"] == "APIUserAbortError"
    assert host.engine.calls[0].aborted
