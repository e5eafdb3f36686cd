"""What a turn prefills again, on the engine that keeps a prefix cache of text: as little as can be, and it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests import tiny
from tests.checkpoints.training.export_text import export_text
from tests.host.servers import TEXT_OPTIONS, TINY_VLM, HostServer, running_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.responses import Response, ResponseUsage

pytestmark = pytest.mark.contract

INSTRUCTIONS = "you are a helpful coding assistant agent that works in the user workspace " * 10
QUESTIONS = ["hello", tiny.ASK_COLOUR, "hello", tiny.ASK_COLOUR]


@pytest.fixture(scope="module")
def batched_text_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The real host with the text-only model and continuous batching."""
    directory = tmp_path_factory.mktemp("batched-text")
    export_text(TINY_VLM, directory / "model")
    options = [str(directory / "model"), *TEXT_OPTIONS, "--continuous-batching"]
    with running_host(options, directory / "host.log") as server:
        yield server


@pytest.mark.parametrize("stored", [False, True], ids=["replayed", "stored"])
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "sse"])
def test_a_turn_prefills_only_what_is_new(batched_text_server: HostServer, streamed: bool, stored: bool) -> None:
    """Each turn finds all of the turn before in the cache, its answer included, whoever replays the conversation."""
    # A prompt of its own for each case: a whole prompt that is repeated is prefilled anew.
    marker = f"{'streamed' if streamed else 'whole'} {'stored' if stored else 'replayed'} "
    with openai.OpenAI(base_url=batched_text_server.api_url, api_key="unused", max_retries=0, timeout=60) as client:
        history: list[Any] = []
        previous: Response | None = None
        for number, question in enumerate(QUESTIONS):
            new = [{"role": "user", "content": question}]
            body: Any = {"input": new if stored else [*history, *new]}
            if stored and previous is not None:
                body["previous_response_id"] = previous.id
            response = ask(client, streamed=streamed, instructions=marker + INSTRUCTIONS, **body)
            usage = usage_of(response)
            if previous is not None:
                assert usage.input_tokens_details.cached_tokens >= usage_of(previous).input_tokens, f"turn {number}"
                assert usage.input_tokens_details.cached_tokens <= usage.input_tokens
            history += [*new, *(item.model_dump(exclude_none=True) for item in response.output)]
            previous = response


def ask(client: openai.OpenAI, *, streamed: bool, **body: Any) -> Response:
    options: Any = {"model": tiny.MODEL, "temperature": 0, "max_output_tokens": 60, **body}
    if not streamed:
        response: Response = client.responses.create(**options)
        return response
    with client.responses.stream(**options) as stream:
        return stream.get_final_response()


def usage_of(response: Response) -> ResponseUsage:
    assert response.usage is not None
    return response.usage
