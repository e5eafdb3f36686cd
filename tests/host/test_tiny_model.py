"""What the project exists for, on a real model: both engines of the real host, plain answers and streams.

The tiny model's answers tell what reached it (see ``tests/checkpoints/README.md``): it says so when it sees no image or
lacks a tool, and counts images when asked. Where the prompt matters, the number of input tokens is compared with that
of the chat request which spells the same out; an image is six tokens more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest
from openai.types.responses import ResponseCustomToolCall, ResponseFunctionToolCall
from pydantic import BaseModel

from tests import tiny
from tests.host.asking import Asker, Item, called, image, input_tokens, output, replayed, text, user
from tests.images import ImageFormat, data_url

if TYPE_CHECKING:
    from collections.abc import Iterator

GRAMMAR = (
    'start: "*** Begin Patch" LF add_hunk+ "*** End Patch" LF?\nadd_hunk: "*** Add File: " /(.+)/ LF\n%import common.LF'
)


class Seen(BaseModel):
    """What to make of an image."""

    color: str


@pytest.fixture(params=[False, True], ids=["json", "sse"])
def asker(request: pytest.FixtureRequest, client: openai.OpenAI) -> Asker:
    return Asker(client, request.param)


def chat_prompt_tokens(client: openai.OpenAI, tool_text: str, *colours: str) -> int:
    """How long the prompt of the chat request is that spells out a screenshot call, its result and its images."""
    call = {"id": "call_1", "type": "function", "function": {"name": "screenshot", "arguments": "{}"}}
    images = [{"type": "image_url", "image_url": {"url": data_url(colour)}} for colour in colours]
    messages: list[Any] = [
        {"role": "user", "content": tiny.ASK_SCREENSHOT},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": tool_text},
        {"role": "user", "content": images},
    ]
    tools: Any = tiny.CHAT_FUNCTIONS
    completion = client.chat.completions.create(model=tiny.MODEL, messages=messages, tools=tools, max_tokens=1)
    assert completion.usage is not None
    return completion.usage.prompt_tokens


# --- A1: images ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", tiny.COLOURS)
def test_the_image_of_a_tool_result_is_seen(asker: Asker, colour: str) -> None:
    """A screenshot tool returns text and an image: the answer names its colour, and the prompt holds exactly one image."""
    history = [user(tiny.ASK_SCREENSHOT), called("screenshot")]
    result = output([text("Screenshot taken."), image(colour)])
    response = asker.ask([*history, result], tools=tiny.RESPONSES_FUNCTIONS)
    assert (response.status, response.output_text) == ("completed", tiny.screenshot_answer(colour))
    assert [item.type for item in response.output] == ["message"]
    tool_text = f"Screenshot taken.\n{tiny.IMAGE_MARKER}"
    assert input_tokens(response) == chat_prompt_tokens(asker.client, tool_text, colour)


def test_a_tool_result_may_be_an_image_alone(asker: Asker) -> None:
    """Without text the tool message is the line that announces the image."""
    history = [user(tiny.ASK_SCREENSHOT), called("screenshot"), output([image("red")])]
    response = asker.ask(history, tools=tiny.RESPONSES_FUNCTIONS)
    assert response.output_text == tiny.screenshot_answer("red")
    assert input_tokens(response) == chat_prompt_tokens(asker.client, tiny.IMAGE_MARKER, "red")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_image_of_a_tool_result_reaches_the_model_once(asker: Asker, count: int) -> None:
    """Asked how many images it sees, the model says as many as the tool returned."""
    parts = [image(colour) for colour in tiny.COLOURS[:count]] or [text(tiny.IMAGE_MARKER)]
    history = [user(tiny.ASK_SCREENSHOT_COUNT), called("screenshot"), output(parts)]
    assert asker.ask(history, tools=tiny.RESPONSES_TOOLS).output_text == tiny.count_answer(count)


@pytest.mark.parametrize("colour", tiny.COLOURS)
def test_an_image_of_a_user_turn_is_seen_as_on_chat(asker: Asker, client: openai.OpenAI, colour: str) -> None:
    """``input_image`` gives the answer and the prompt of the equivalent chat-completions ``image_url``."""
    response = asker.ask([user(tiny.ASK_COLOUR, image(colour))])
    completion = client.chat.completions.create(
        model=tiny.MODEL,
        temperature=0,
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": tiny.ASK_COLOUR},
                    {"type": "image_url", "image_url": {"url": data_url(colour)}},
                ],
            }
        ],
    )
    assert response.output_text == completion.choices[0].message.content == tiny.colour_answer(colour)
    assert completion.usage is not None
    assert input_tokens(response) == completion.usage.prompt_tokens


@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "WEBP", "GIF"])
def test_the_usual_image_formats_are_seen(asker: Asker, image_format: ImageFormat) -> None:
    """Whatever the host can open is an image to us."""
    response = asker.ask([user(tiny.ASK_COLOUR_IN_ONE_WORD, image("green", image_format))])
    assert response.output_text == "green"


def test_without_an_image_the_model_sees_none(asker: Asker) -> None:
    """The control of all tests above."""
    assert asker.ask(tiny.ASK_COLOUR).output_text == tiny.NO_IMAGE


@pytest.mark.parametrize("place", ["message", "tool result"])
def test_an_uploaded_file_is_refused_by_name(asker: Asker, place: str) -> None:
    """``{"type": "input_image", "file_id": "f1"}`` alone is a 400 that names the field, streamed or not."""
    part: Item = {"type": "input_image", "file_id": "f1"}
    tool_result = [user(tiny.ASK_SCREENSHOT), called("screenshot"), output([part])]
    given, path = ([user(part)], "input[0].content[0]") if place == "message" else (tool_result, "input[2].output[0]")
    with pytest.raises(openai.BadRequestError) as caught:
        asker.ask(given, tools=tiny.RESPONSES_TOOLS)
    error = caught.value.body
    assert isinstance(error, dict)
    assert error["type"] == "invalid_request_error"
    assert error["param"] == f"{path}.file_id"
    assert "file_id" in error["message"]
    assert "image_url" in error["message"]


def test_the_same_images_again_as_a_stream(client: openai.OpenAI) -> None:
    """A plain request and the same streamed, in any order and more than once, all succeed and agree."""
    history = [user(tiny.ASK_SCREENSHOT), called("screenshot"), output([image("blue", side=48)])]
    order = [False, True, True, False, True]
    responses = [Asker(client, stream).ask(history, tools=tiny.RESPONSES_TOOLS) for stream in order]
    assert [response.output_text for response in responses] == [tiny.screenshot_answer("blue")] * len(order)
    assert len({input_tokens(response) for response in responses}) == 1


# --- A2: custom tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grammar", [None, GRAMMAR], ids=["text", "grammar"])
def test_a_custom_tool_is_called_with_the_exact_patch(asker: Asker, grammar: str | None) -> None:
    """apply_patch comes back as ``custom_tool_call`` whose input is the patch itself, not JSON."""
    tools = [dict(tool) for tool in tiny.RESPONSES_TOOLS]
    if grammar is not None:
        tools[-1]["format"] = {"type": "grammar", "syntax": "lark", "definition": grammar}
    response = asker.ask(tiny.ASK_PATCH, tools=tools)
    (call,) = response.output
    assert isinstance(call, ResponseCustomToolCall)
    assert (call.name, call.input) == ("apply_patch", tiny.PATCH)


def test_a_custom_call_streams_its_input(client: openai.OpenAI) -> None:
    """The patch arrives in deltas of a custom call, and no event speaks of function arguments."""
    events = Asker(client, stream=True).events(tiny.ASK_PATCH, tools=tiny.RESPONSES_TOOLS)
    deltas = [event.data["delta"] for event in events if event.type == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == tiny.PATCH
    assert not [event.type for event in events if "function_call_arguments" in event.type]


def test_a_function_stays_a_function(asker: Asker) -> None:
    """get_weather comes back as ``function_call`` with JSON arguments beside a custom tool."""
    response = asker.ask(tiny.ASK_WEATHER, tools=tiny.RESPONSES_TOOLS)
    (call,) = response.output
    assert isinstance(call, ResponseFunctionToolCall)
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})


def test_the_exchange_of_a_custom_tool_goes_on(asker: Asker) -> None:
    """The call is sent back as it came, with its output, and the model answers instead of calling again."""
    first = asker.ask(tiny.ASK_PATCH, tools=tiny.RESPONSES_TOOLS)
    (call,) = first.output
    assert isinstance(call, ResponseCustomToolCall)
    result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done!"}
    history = [user(tiny.ASK_PATCH), *replayed(first.output), result]
    response = asker.ask(history, tools=tiny.RESPONSES_TOOLS)
    assert [item.type for item in response.output] == ["message"]
    assert response.output_text == tiny.PATCH_ANSWER


def test_without_tools_there_is_no_call(asker: Asker) -> None:
    """The control of the tests above: a tool that does not reach the model is not called."""
    response = asker.ask(tiny.ASK_PATCH)
    assert response.output_text == tiny.NO_TOOL


# --- A3: the tool exchange -------------------------------------------------------------------------------------------


def test_a_continuation_answers_from_the_result(asker: Asker) -> None:
    """The continuation renders more than the fresh turn, and the model answers from it instead of calling again."""
    fresh = asker.ask(tiny.ASK_WEATHER, tools=tiny.RESPONSES_TOOLS)
    (call,) = fresh.output
    assert isinstance(call, ResponseFunctionToolCall)
    history = [user(tiny.ASK_WEATHER), *replayed(fresh.output), output(tiny.WEATHER_RESULT, call.call_id)]
    response = asker.ask(history, tools=tiny.RESPONSES_TOOLS)
    assert [item.type for item in response.output] == ["message"]
    assert response.output_text == tiny.WEATHER_ANSWER
    assert input_tokens(response) > input_tokens(fresh)


def test_parallel_calls_are_answered_together(asker: Asker) -> None:
    """Two calls of one turn come back as two items, and both results are in the answer."""
    fresh = asker.ask(tiny.ASK_TWO_WEATHERS, tools=tiny.RESPONSES_TOOLS)
    calls = [item for item in fresh.output if isinstance(item, ResponseFunctionToolCall)]
    assert [json.loads(call.arguments) for call in calls] == [{"city": "Paris"}, {"city": "Rome"}]
    results = [tiny.WEATHER_RESULT, '{"temperature": 12, "condition": "rainy"}']
    outputs = [output(result, call.call_id) for call, result in zip(calls, results, strict=True)]
    history = [user(tiny.ASK_TWO_WEATHERS), *replayed(fresh.output), *outputs]
    response = asker.ask(history, tools=tiny.RESPONSES_TOOLS)
    assert response.output_text == f"{tiny.WEATHER_ANSWER} It is 12 degrees and rainy in Rome."


# --- Stored responses ------------------------------------------------------------------------------------------------


def test_a_stored_exchange_goes_on_with_an_image(asker: Asker) -> None:
    """Turn 2 sends only the tool's image: its prompt is that of a full replay, and so is that of turn 3."""
    first = asker.ask(tiny.ASK_SCREENSHOT, tools=tiny.RESPONSES_TOOLS, store=True)
    (call,) = first.output
    assert isinstance(call, ResponseFunctionToolCall)
    assert call.name == "screenshot"

    result = output([image("yellow")], call.call_id)
    second = asker.ask([result], previous_response_id=first.id, tools=tiny.RESPONSES_TOOLS, store=True)
    assert second.previous_response_id == first.id
    assert second.output_text == tiny.screenshot_answer("yellow")
    history = [user(tiny.ASK_SCREENSHOT), *replayed(first.output), result]
    replay = asker.ask(history, tools=tiny.RESPONSES_TOOLS, store=False)
    assert (replay.output_text, input_tokens(replay)) == (second.output_text, input_tokens(second))

    question = user(tiny.ASK_COLOUR, image("blue"))
    third = asker.ask([question], previous_response_id=second.id, tools=tiny.RESPONSES_TOOLS)
    assert third.output_text == tiny.colour_answer("blue")
    history += [*replayed(second.output), question]
    replay = asker.ask(history, tools=tiny.RESPONSES_TOOLS, store=False)
    assert (replay.output_text, input_tokens(replay)) == (third.output_text, input_tokens(third))


def test_a_stored_response_can_be_retrieved_and_deleted(asker: Asker) -> None:
    """What is retrieved is what was answered; once deleted it is gone, also as a previous response."""
    created = asker.ask(tiny.ASK_WEATHER, tools=tiny.RESPONSES_TOOLS)
    assert asker.client.responses.retrieve(created.id).model_dump() == created.model_dump()
    asker.client.responses.delete(created.id)
    with pytest.raises(openai.NotFoundError):
        asker.client.responses.retrieve(created.id)
    with pytest.raises(openai.NotFoundError) as caught:
        asker.ask(tiny.ASK_WEATHER, previous_response_id=created.id)
    assert caught.value.code == "previous_response_not_found"


def test_an_unstored_response_is_not_kept(asker: Asker) -> None:
    """``store: false`` leaves nothing behind."""
    created = asker.ask("hello", store=False)
    with pytest.raises(openai.NotFoundError):
        asker.client.responses.retrieve(created.id)


# --- openai-python's own helpers -------------------------------------------------------------------------------------


def test_parse_reads_a_pydantic_model(client: openai.OpenAI) -> None:
    """``responses.parse`` constrains the answer to a schema, and reads it."""
    question: Any = user(tiny.ASK_COLOUR, image("blue"))
    response = client.responses.parse(model=tiny.MODEL, temperature=0, input=[question], text_format=Seen)
    assert response.output_parsed == Seen(color="blue")


def test_stream_reads_a_pydantic_model(client: openai.OpenAI) -> None:
    """``responses.stream`` does the same while the text arrives."""
    question: Any = user(tiny.ASK_COLOUR, image("red"))
    with client.responses.stream(model=tiny.MODEL, temperature=0, input=[question], text_format=Seen) as stream:
        deltas = list(_text_deltas(stream))
        response = stream.get_final_response()
    assert response.output_parsed == Seen(color="red")
    assert "".join(deltas) == response.output_text


def test_stream_accumulates_text_and_calls(client: openai.OpenAI) -> None:
    """``responses.stream`` takes our events, and its final response is that of a plain request."""
    question = "Hi!"
    with client.responses.stream(model=tiny.MODEL, temperature=0, input=question) as stream:
        text_deltas = list(_text_deltas(stream))
    assert len(text_deltas) > 1
    plain = client.responses.create(model=tiny.MODEL, temperature=0, input=question)
    assert "".join(text_deltas) == plain.output_text == tiny.GREETING


def _text_deltas(stream: Any) -> Iterator[str]:
    for event in stream:
        if event.type == "response.output_text.delta":
            yield event.delta
