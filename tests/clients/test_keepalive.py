"""A slow model: signs of life come between the events, and no client takes them for something else."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import agents
import openai
import pytest
from langchain_openai import ChatOpenAI

from responses_plugin.settings import Settings
from tests.clients.node import run_job
from tests.host.reading import streaming
from tests.host.scripted import SCRIPTED_MODEL, Script, ScriptedHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ANSWER = "Ten past nine."


@contextmanager
def slow() -> Iterator[str]:
    """A server whose every token takes several keepalives."""
    pieces = ["Ten ", "past ", "nine", "."]
    script = Script(pieces, delay=0.25)
    with ScriptedHost(script, options=Settings(keepalive_seconds=0.05)) as host, host.serving() as url:
        yield url


def openai_python(url: str) -> str:
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client,
        client.responses.stream(model=SCRIPTED_MODEL, input="hi") as stream,
    ):
        list(stream)
        return stream.get_final_response().output_text


def openai_agents(url: str) -> str:
    async def run() -> str:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
            provider = agents.OpenAIProvider(openai_client=client, use_responses=True)
            config = agents.RunConfig(model=SCRIPTED_MODEL, model_provider=provider, tracing_disabled=True)
            result = agents.Runner.run_streamed(agents.Agent(name="Clock"), "hi", run_config=config)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

    return asyncio.run(run())


def langchain(url: str) -> str:
    model = ChatOpenAI(
        model=SCRIPTED_MODEL,
        base_url=f"{url}/v1",
        api_key="unused",  # type: ignore[arg-type] # a plain string is taken too
        use_responses_api=True,
        max_retries=0,
    )
    return "".join(chunk.text for chunk in model.stream("hi"))


def openai_js(url: str) -> str:
    return str(run_job("openai", "events", url, request={"input": "hi"})["text"])


def vercel(url: str) -> str:
    return str(run_job("vercel", "text", url, stream=True)["text"])


@pytest.mark.parametrize("client", [openai_python, openai_agents, langchain, openai_js, vercel])
def test_a_slow_answer_is_the_answer(client: Callable[[str], str]) -> None:
    """Nothing is added to it, nothing is lost, and nobody complains."""
    with slow() as url:
        assert client(url) == ANSWER


async def test_the_answer_is_slow_enough() -> None:
    """There are keepalives at the beginning and in the middle of it."""
    with slow() as url:
        async with streaming(url) as events:
            await events.rest()
    types = events.types
    assert "keepalive" in types[: types.index("response.output_text.delta")]
    assert "keepalive" in types[types.index("response.output_text.delta") :]
