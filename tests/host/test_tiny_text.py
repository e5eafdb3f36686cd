"""The plugin on text-only engines: the language half of the tiny model, served as a model of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import openai
import pytest

from tests import tiny
from tests.checkpoints.training.export_text import export_text
from tests.host.asking import Asker, Item, called, image, input_tokens, output, replayed, text, user
from tests.host.servers import ENGINE_OPTIONS, TEXT_OPTIONS, TINY_VLM, HostServer, running_host

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=list(ENGINE_OPTIONS))
def text_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The real host with the text-only model, once with each of its engines."""
    directory = tmp_path_factory.mktemp("text")
    export_text(TINY_VLM, directory / "model")
    options = [str(directory / "model"), *TEXT_OPTIONS, *ENGINE_OPTIONS[request.param]]
    with running_host(options, directory / "host.log") as server:
        yield server


@pytest.fixture(params=[False, True], ids=["json", "sse"])
def asker(request: pytest.FixtureRequest, text_server: HostServer) -> Iterator[Asker]:
    with openai.OpenAI(base_url=text_server.api_url, api_key="unused", max_retries=0, timeout=60) as client:
        yield Asker(client, request.param)


def screenshot_exchange(*parts: Item) -> list[Item]:
    return [user(tiny.ASK_SCREENSHOT), called("screenshot"), output(parts)]


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (tiny.WEATHER_RESULT, tiny.WEATHER_ANSWER),
        ('{"temperature": 12, "condition": "rainy"}', "It is 12 degrees and rainy in Paris."),
    ],
    ids=["sunny", "rainy"],
)
def test_a_continuation_answers_from_the_result(asker: Asker, result: str, answer: str) -> None:
    """The fresh turn calls; the continuation's prompt is strictly longer, and it is answered from what the tool said."""
    fresh = asker.ask([user(tiny.ASK_WEATHER)], tools=tiny.RESPONSES_TOOLS)
    (call,) = fresh.output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "Paris"}
    history = [user(tiny.ASK_WEATHER), *replayed(fresh.output), output(result, call.call_id)]
    continued = asker.ask(history, tools=tiny.RESPONSES_TOOLS)
    assert [item.type for item in continued.output] == ["message"]
    assert continued.output_text == answer
    assert input_tokens(continued) > input_tokens(fresh) > 0


def test_a_custom_tool_works(asker: Asker) -> None:
    """Custom tools need no vision."""
    (call,) = asker.ask(tiny.ASK_PATCH, tools=tiny.RESPONSES_TOOLS).output
    assert call.type == "custom_tool_call"
    assert call.input == tiny.PATCH


def test_an_image_of_a_message_is_refused(asker: Asker) -> None:
    """What the user shows must not be ignored: a 400 names the message and says that this model takes no images."""
    with pytest.raises(openai.BadRequestError) as caught:
        asker.ask([user(tiny.ASK_COLOUR, image("red"))], tools=tiny.RESPONSES_TOOLS)
    error = caught.value.body
    assert isinstance(error, dict)
    assert error["param"].startswith("input[0]")
    assert "image" in error["message"]


def test_an_image_of_a_tool_result_becomes_a_line(asker: Asker) -> None:
    """A tool that returns an image must not end an agent's session: the prompt grows by a line that says it is missing."""
    words = text("Screenshot taken.")
    with_image = asker.ask(screenshot_exchange(words, image("red")), tools=tiny.RESPONSES_TOOLS)
    without = asker.ask(screenshot_exchange(words), tools=tiny.RESPONSES_TOOLS)
    assert with_image.status == "completed"
    assert 0 < input_tokens(with_image) - input_tokens(without) < 100
