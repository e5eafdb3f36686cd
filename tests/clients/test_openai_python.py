"""openai-python, as strict as it can be made: every response and every event is validated against its own types."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest
from pydantic import BaseModel
from vllm_mlx.engine.base import EngineBusy
from vllm_mlx.server import RateLimiter

from responses_plugin.settings import Settings
from tests.clients.scripts import calls, says
from tests.host.scripted import SCRIPTED_MODEL, Gate, Script, ScriptedHost
from tests.images import data_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openai.types.responses import Response

    from tests.host.scripted import ScriptedEngine

RED, BLUE = data_url("red"), data_url("blue")
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
EDIT: Any = {"type": "custom", "name": "edit", "description": "Edits files.", "format": {"type": "text"}}
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+é\n*** End Patch\n"


@contextmanager
def connected(*scripts: Script, key: str = "unused", **options: Any) -> Iterator[tuple[openai.OpenAI, ScriptedEngine]]:
    """The client, connected to the host, and the engine behind it."""
    with (
        ScriptedHost(*scripts, **options) as host,
        host.serving() as url,
        openai.OpenAI(
            base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=20, _strict_response_validation=True
        ) as client,
    ):
        yield client, host.engine


def _whole(client: openai.OpenAI, **request: Any) -> Response:
    return client.responses.create(model=SCRIPTED_MODEL, **request)


def _stream_of_create(client: openai.OpenAI, **request: Any) -> Response:
    *_, last = client.responses.create(model=SCRIPTED_MODEL, stream=True, **request)
    return last.response


def _stream_helper(client: openai.OpenAI, **request: Any) -> Response:
    """The helper accumulates the deltas, and complains of anything out of order."""
    with client.responses.stream(model=SCRIPTED_MODEL, **request) as stream:
        for event in stream:
            if event.type == "response.output_text.done":
                assert event.text
        return stream.get_final_response()


#: Every way to get an answer; what holds for one holds for all.
EVERY_WAY = pytest.mark.parametrize("create", [_whole, _stream_of_create, _stream_helper])


# --- Answers ---------------------------------------------------------------------------------------------------------


@EVERY_WAY
def test_an_answer(create: Callable[..., Response]) -> None:
    """Instructions and input reach the model, and its answer comes back with its usage."""
    with connected(says("Ten past nine, as always.")) as (client, engine):
        response = create(client, instructions="Be brief.", input="What time is it?", metadata={"a": "b"})
    assert (response.status, response.output_text) == ("completed", "Ten past nine, as always.")
    assert response.metadata == {"a": "b"}
    assert response.usage
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert engine.calls[0].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What time is it?"},
    ]


def test_the_text_arrives_in_pieces() -> None:
    """The deltas of the helper add up; its snapshots grow."""
    with (
        connected(says("One, two, three.")) as (client, _),
        client.responses.stream(model=SCRIPTED_MODEL, input="Count.") as stream,
    ):
        deltas = [event for event in stream if event.type == "response.output_text.delta"]
    assert len(deltas) > 1
    assert "".join(event.delta for event in deltas) == deltas[-1].snapshot == "One, two, three."


@EVERY_WAY
def test_reasoning(create: Callable[..., Response]) -> None:
    """The thought is an item of its own, with its summary, and goes back to its turn."""
    thinking = [says("<think>They want\na sum.</think>\n\nFour."), says("<think></think>Six.")]
    with connected(*thinking, reasoning_parser="qwen3") as (client, engine):
        first = create(client, input="2+2?", reasoning={"summary": "auto"}, include=["reasoning.encrypted_content"])
        replayed = [item.model_dump(exclude_none=True) for item in first.output]
        create(client, input=[{"role": "user", "content": "2+2?"}, *replayed, {"role": "user", "content": "3+3?"}])
    thought, message = first.output
    assert (thought.type, message.type, first.output_text.strip()) == ("reasoning", "message", "Four.")
    assert thought.type == "reasoning"
    assert thought.content
    assert thought.content[0].text.strip() == "They want\na sum."
    assert thought.summary[0].text
    assert thought.encrypted_content
    assert first.usage
    assert first.usage.output_tokens_details.reasoning_tokens > 0
    assert engine.calls[1].messages[1]["reasoning_content"].strip() == "They want\na sum."
    assert engine.calls[1].messages[1]["content"].strip() == "Four."


class City(BaseModel):
    name: str
    people: int


CITY = '{"name": "Łódź", "people": 670000}'


@pytest.mark.parametrize("tools", [[], [WEATHER]], ids=["alone", "beside tools"])
def test_parse(tools: list[Any]) -> None:
    """A pydantic model as the form of the answer, at once and streamed, also where tools might be called instead."""
    with connected(says(CITY)) as (client, engine):
        parsed = client.responses.parse(model=SCRIPTED_MODEL, input="A city.", text_format=City, tools=tools)
        with client.responses.stream(model=SCRIPTED_MODEL, input="A city.", text_format=City, tools=tools) as stream:
            list(stream)
            streamed = stream.get_final_response()
    for response in (parsed, streamed):
        assert response.output_parsed == City(name="Łódź", people=670000)
        assert response.text
        assert response.text.format
        assert response.text.format.type == "json_schema"
    assert [len(call.tools or []) for call in engine.calls] == [len(tools)] * 2


# --- Tools -----------------------------------------------------------------------------------------------------------


@EVERY_WAY
def test_functions(create: Callable[..., Response]) -> None:
    """Two calls at once, answered by their ids; what the client got is what it sends back."""
    script = calls(("get_weather", {"city": "Łódź"}), ("get_weather", {"city": "Rome"}), before="Let me see. ")
    with connected(script, says("Rain, sun.")) as (client, engine):
        first = create(client, input="Weather?", tools=[WEATHER], parallel_tool_calls=True)
        found = [item for item in first.output if item.type == "function_call"]
        results = [
            {"type": "function_call_output", "call_id": item.call_id, "output": text}
            for item, text in zip(found, ["rain", "sun"], strict=True)
        ]
        second = create(
            client,
            input=[{"role": "user", "content": "Weather?"}, *(item.to_dict() for item in first.output), *results],
            tools=[WEATHER],
        )
    assert [json.loads(item.arguments) for item in found] == [{"city": "Łódź"}, {"city": "Rome"}]
    assert {item.name for item in found} == {"get_weather"}
    assert first.output_text.strip() == "Let me see."
    assert second.output_text == "Rain, sun."
    assert engine.calls[0].tools is not None
    assert engine.calls[0].tools[0]["function"]["parameters"] == WEATHER["parameters"]
    _, turn, *results = engine.calls[1].messages
    assert turn["content"].strip() == "Let me see."
    assert [call["function"]["arguments"] for call in turn["tool_calls"]] == [{"city": "Łódź"}, {"city": "Rome"}]
    assert [(result["role"], result["content"]) for result in results] == [("tool", "rain"), ("tool", "sun")]
    assert [result["tool_call_id"] for result in results] == [call["id"] for call in turn["tool_calls"]]


def test_parsed_functions() -> None:
    """The helper reads the arguments as the pydantic model that declared the function."""

    class Look(BaseModel):
        """Looks at a city."""

        city: City

    tool = openai.pydantic_function_tool(Look)
    flat: Any = {"type": "function", **tool["function"]}
    with connected(calls(("Look", {"city": json.loads(CITY)}))) as (client, _):
        response = client.responses.parse(model=SCRIPTED_MODEL, input="Look.", tools=[flat])
        with client.responses.stream(model=SCRIPTED_MODEL, input="Look.", tools=[flat]) as stream:
            deltas = [event for event in stream if event.type == "response.function_call_arguments.delta"]
            streamed = stream.get_final_response()
    assert json.loads(deltas[-1].snapshot) == {"city": json.loads(CITY)}
    for item in (response.output[0], streamed.output[0]):
        assert item.type == "function_call"
        assert json.loads(item.arguments) == {"city": json.loads(CITY)}


@EVERY_WAY
def test_custom_tools(create: Callable[..., Response]) -> None:
    """Free text arrives as it is, and goes back as the call that the model made."""
    with connected(calls(("edit", {"input": PATCH})), says("Done.")) as (client, engine):
        first = create(client, input="Edit.", tools=[EDIT])
        (item,) = first.output
        assert item.type == "custom_tool_call"
        output = {"type": "custom_tool_call_output", "call_id": item.call_id, "output": "Success."}
        create(client, input=[{"role": "user", "content": "Edit."}, item.to_dict(), output], tools=[EDIT])
    assert (item.name, item.input) == ("edit", PATCH)
    _, turn, result = engine.calls[1].messages
    assert turn["tool_calls"][0]["function"] == {"name": "edit", "arguments": {"input": PATCH}}
    assert (result["role"], result["content"]) == ("tool", "Success.")


@EVERY_WAY
def test_images(create: Callable[..., Response]) -> None:
    """One in a message, one that a tool returned: both reach the engine, in their order."""
    with connected(says("Red and blue.")) as (client, engine):
        call = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Rome"}'}
        image = {"type": "input_image", "image_url": BLUE, "detail": "auto"}
        first = {"type": "input_image", "image_url": RED, "detail": "low"}
        text = {"type": "input_text", "text": "What do you see?"}
        create(
            client,
            input=[
                {"role": "user", "content": [text, first]},
                call,
                {"type": "function_call_output", "call_id": "call_1", "output": [image]},
            ],
            tools=[WEATHER],
        )
    assert images_of(engine) == [RED, BLUE]


def images_of(engine: ScriptedEngine, index: int = -1) -> list[str]:
    """The images that reached the engine with one call."""
    contents = [message["content"] for message in engine.calls[index].messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_an_answer_that_was_cut_off() -> None:
    """It is incomplete, and says why."""
    for create in (_whole, _stream_of_create):
        with connected(says("Once upon a", finish_reason="length")) as (client, _):
            response = create(client, input="A story.", max_output_tokens=16)
        assert response.status == "incomplete"
        assert response.incomplete_details
        assert response.incomplete_details.reason == "max_output_tokens"
        assert response.output_text == "Once upon a"


# --- Stored responses ------------------------------------------------------------------------------------------------


@EVERY_WAY
def test_stored_responses(create: Callable[..., Response]) -> None:
    """A response can be continued, read and forgotten."""
    with connected(says("Hello.")) as (client, engine):
        first = create(client, input="Hi.", store=True)
        second = create(client, input="And?", previous_response_id=first.id)
        read = client.responses.retrieve(first.id)
        client.responses.delete(first.id)
        for gone in (client.responses.retrieve, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                gone(first.id)
        with pytest.raises(openai.NotFoundError) as caught:
            create(client, input="And?", previous_response_id=first.id)
    # The helper adds what it has parsed to the output.
    assert read.to_dict() | {"output": []} == first.to_dict() | {"output": []}
    assert [item.id for item in read.output] == [item.id for item in first.output]
    assert read.output_text == "Hello."
    assert second.previous_response_id == first.id
    assert caught.value.code == "previous_response_not_found"
    assert [message["content"] for message in engine.calls[1].messages] == ["Hi.", "Hello.", "And?"]


# --- Errors ----------------------------------------------------------------------------------------------------------


class Exhausted(RateLimiter):
    """The host's rate limit, reached."""

    def is_allowed(self, client_id: str) -> tuple[bool, int]:
        return False, 7


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("options", "request_", "error", "code"),
    [
        ({}, {"input": 5}, openai.BadRequestError, "invalid_type"),
        ({}, {"input": "hi", "tool_choice": {"type": "web_search"}}, openai.BadRequestError, "invalid_value"),
        ({"api_key": "other"}, {"input": "hi"}, openai.AuthenticationError, None),
        ({}, {"input": "hi", "model": "gpt-0"}, openai.NotFoundError, "model_not_found"),
        ({"globals": {"_rate_limiter": Exhausted()}}, {"input": "hi"}, openai.RateLimitError, None),
        ({"options": Settings(max_body_bytes=10)}, {"input": "hi"}, openai.APIStatusError, None),
    ],
    ids=["bad type", "hosted tool", "key", "model", "rate", "size"],
)
def test_refusals(
    options: dict[str, Any],
    request_: dict[str, Any],
    error: type[openai.APIStatusError],
    code: str | None,
    stream: bool,
) -> None:
    """Each is the class that the client has for it, with a message that says something, also where a stream was due."""
    with connected(says("Hello."), **options) as (client, engine):
        request: Any = {"model": SCRIPTED_MODEL, **request_, "stream": stream}
        with pytest.raises(error) as caught:
            client.responses.create(**request)
    assert type(caught.value) is error
    assert caught.value.body
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["message"] in caught.value.message
    if code is not None:
        assert caught.value.code == code
    assert not engine.calls


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (RuntimeError("boom"), 500, "server_error"),
        (EngineBusy("busy"), 503, "server_is_overloaded"),
    ],
)
def test_failures(failure: Exception, status: int, code: str) -> None:
    """A whole answer fails with an HTTP status, a stream with the exception that the client has for its error event."""
    with connected(says("Hello, you.", error=failure, error_after=1)) as (client, _):
        with pytest.raises(openai.InternalServerError) as whole:
            _whole(client, input="hi")
        for create in (_stream_of_create, _stream_helper):
            with pytest.raises(openai.APIError) as streamed:
                create(client, input="hi")
            assert streamed.value.code == code
    assert (whole.value.status_code, whole.value.code) == (status, code)


def test_a_client_that_waits_no_longer() -> None:
    """Its timeout is its own exception, and the engine is not left to generate for nobody."""
    never = Gate()
    with connected(says("Hello, you.", gates={1: never})) as (client, engine):
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=1).responses.create(model=SCRIPTED_MODEL, input="hi")
        assert never.reached.wait(10)
        assert engine.calls[0].over.wait(10)
    assert engine.calls[0].aborted
