"""The plugin on a text-only engine: the language half of the tiny model, served as a model of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests import tiny
from tests.checkpoints.training.export_text import export_text
from tests.host.servers import TEXT_OPTIONS, TINY_VLM, HostServer, running_host
from tests.images import data_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.responses import Response


@pytest.fixture(scope="module")
def text_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The real host with the text-only model, simple engine."""
    directory = tmp_path_factory.mktemp("text")
    export_text(TINY_VLM, directory / "model")
    with running_host([str(directory / "model"), *TEXT_OPTIONS], directory / "host.log") as server:
        yield server


@pytest.fixture
def text_client(text_server: HostServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=text_server.api_url, api_key="unused", max_retries=0, timeout=60) as client:
        yield client


def ask(client: openai.OpenAI, *items: Any) -> Response:
    body: Any = {"model": tiny.MODEL, "input": items, "tools": tiny.RESPONSES_TOOLS}
    response: Response = client.responses.create(temperature=0, max_output_tokens=120, **body)
    return response


def screenshot_exchange(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": tiny.ASK_SCREENSHOT},
        {"type": "function_call", "call_id": "call_1", "name": "screenshot", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": parts},
    ]


def test_a_tool_exchange_works(text_client: openai.OpenAI) -> None:
    """The model calls the tool, and answers from its result."""
    question = {"role": "user", "content": tiny.ASK_WEATHER}
    (call,) = ask(text_client, question).output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "Paris"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": tiny.WEATHER_RESULT}
    assert ask(text_client, question, call.model_dump(), result).output_text == tiny.WEATHER_ANSWER


def test_a_custom_tool_works(text_client: openai.OpenAI) -> None:
    """Custom tools need no vision."""
    (call,) = ask(text_client, {"role": "user", "content": tiny.ASK_PATCH}).output
    assert call.type == "custom_tool_call"
    assert call.input == tiny.PATCH


def test_an_image_of_a_message_is_refused(text_client: openai.OpenAI) -> None:
    """What the user shows must not be ignored: a 400 names the message and says that this model takes no images."""
    picture = {"type": "input_image", "image_url": data_url("red")}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(text_client, {"role": "user", "content": [{"type": "input_text", "text": tiny.ASK_COLOUR}, picture]})
    error = caught.value.body
    assert isinstance(error, dict)
    assert error["param"].startswith("input[0]")
    assert "image" in error["message"]


def test_an_image_of_a_tool_result_becomes_a_line(text_client: openai.OpenAI) -> None:
    """A tool that returns an image must not end an agent's session: the prompt grows by a line that says it is missing."""
    words = {"type": "input_text", "text": "Screenshot taken."}
    picture = {"type": "input_image", "image_url": data_url("red")}
    with_image = ask(text_client, *screenshot_exchange(words, picture))
    without = ask(text_client, *screenshot_exchange(words))
    assert with_image.status == "completed"
    assert with_image.usage is not None
    assert without.usage is not None
    assert 0 < with_image.usage.input_tokens - without.usage.input_tokens < 100
