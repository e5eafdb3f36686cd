"""The clients with a real model: nothing is scripted, and what a client sends decides what the tiny model says.

It names the colour of an image only if it sees it, and calls a tool only if it is offered one (see
``tests/checkpoints/README.md``). openai-python is the client of ``tests/host/test_tiny_model.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import agents
import openai
import pytest
from agents import Agent, RunConfig, Runner, function_tool
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests import tiny
from tests.clients.codex import Codex
from tests.clients.node import run_job
from tests.host.servers import TINY_OPTIONS, HostServer, running_host
from tests.images import data_url, image_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The host and the plugin as users run them, for all of the clients. Not every client can ask for temperature 0."""
    log_path = tmp_path_factory.mktemp("host") / "tiny.log"
    with running_host([*TINY_OPTIONS, "--default-temperature", "0", "--max-tokens", "200"], log_path) as server:
        yield server


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


# --- Codex -----------------------------------------------------------------------------------------------------------

#: The tiny model has seen short prompts with a few tools, and Codex sends some thousand tokens and a dozen tools. This
#: leaves its own way of working as it is, and of its tools apply_patch.
LITTLE_TO_READ = (
    *("-c", "include_permissions_instructions=false", "-c", "include_environment_context=false"),
    *("-c", "include_apps_instructions=false", "-c", "skills.include_instructions=false"),
    *("-c", 'web_search="disabled"', "-c", "agents.enabled=false", "-c", "features.goals=false"),
    *("-c", "features.shell_tool=false", "-c", "features.view_image=false"),
    *("-c", "tools.experimental_request_user_input.enabled=false"),
)


@pytest.fixture
def codex(server: HostServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Codex:
    codex = Codex(tmp_path / "home", tmp_path / "workspace")
    codex.home.mkdir()
    codex.workspace.mkdir()
    codex.configure(server.url, capsys)
    return codex


@pytest.mark.parametrize("colour", ["red", "blue"])
def test_codex_shows_an_image(codex: Codex, colour: str) -> None:
    """What ``-i`` takes along is seen."""
    (codex.workspace / "picture.png").write_bytes(image_bytes(colour))
    run = codex.run(tiny.ASK_COLOUR, "-i", "picture.png", *LITTLE_TO_READ)
    assert run.exit_code == 0, run
    assert run.messages == [tiny.colour_answer(colour)]


def test_codex_edits_a_file(codex: Codex) -> None:
    """The model calls the custom tool, Codex applies the patch, and the model hears of it; the session goes on."""
    run = codex.run(tiny.ASK_PATCH, *LITTLE_TO_READ)
    assert run.exit_code == 0, run
    assert (codex.workspace / "hello.txt").read_text() == "hello world\n"
    assert [item["status"] for item in run.items("file_change")] == ["completed"]
    assert run.messages == [tiny.PATCH_ANSWER]
    (codex.workspace / "picture.png").write_bytes(image_bytes("green"))
    again = codex.run("resume", run.thread_id, tiny.ASK_COLOUR, "-i", "picture.png", *LITTLE_TO_READ)
    assert again.exit_code == 0, again
    assert again.messages == [tiny.colour_answer("green")]


# --- openai-agents ---------------------------------------------------------------------------------------------------


@BOTH
async def test_openai_agents_runs_a_tool_that_returns_an_image(server: HostServer, stream: bool) -> None:
    """The model calls the function, and the answer names the colour of what it returned."""

    @function_tool
    def screenshot() -> agents.ToolOutputImage:
        """Take a screenshot"""  # noqa: D400 - in the words that the model knows
        return agents.ToolOutputImage(image_url=data_url("blue"))

    agent = Agent(name="Eye", instructions="You are a helpful assistant.", tools=[screenshot])
    async with openai.AsyncOpenAI(base_url=server.api_url, api_key="unused", max_retries=0, timeout=60) as client:
        provider = agents.OpenAIProvider(openai_client=client, use_responses=True)
        config = RunConfig(model=tiny.MODEL, model_provider=provider, tracing_disabled=True)
        if stream:
            streamed = Runner.run_streamed(agent, tiny.ASK_SCREENSHOT, run_config=config)
            async for _ in streamed.stream_events():
                pass
            answer = streamed.final_output
        else:
            answer = (await Runner.run(agent, tiny.ASK_SCREENSHOT, run_config=config)).final_output
    assert answer == tiny.screenshot_answer("blue")


# --- Vercel AI SDK ---------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
def test_vercel_loops_over_a_tool_that_returns_an_image(server: HostServer, store: bool, stream: bool) -> None:
    """The same with generateText and streamText."""
    options: dict[str, Any] = {"model": tiny.MODEL, "tool": "screenshot", "image": data_url("yellow")}
    seen = run_job(
        "vercel", "tool", server.url, prompt=tiny.ASK_SCREENSHOT, stream=stream, provider={"store": store}, **options
    )
    assert seen.get("text") == tiny.screenshot_answer("yellow"), seen
    assert seen["steps"] == [["tool-call", "tool-result"], ["text"]]


@BOTH
def test_vercel_shows_an_image(server: HostServer, stream: bool) -> None:
    """One in the prompt is seen too."""
    options: dict[str, Any] = {"model": tiny.MODEL, "prompt": tiny.ASK_COLOUR, "image": data_url("red")}
    seen = run_job("vercel", "image", server.url, stream=stream, **options)
    assert seen.get("text") == tiny.colour_answer("red"), seen


# --- LangChain -------------------------------------------------------------------------------------------------------


@BOTH
def test_langchain_sees_and_calls(server: HostServer, stream: bool) -> None:
    """An image of the user, then one of a tool that the model calls."""

    @tool
    def screenshot() -> str:
        """Take a screenshot"""  # noqa: D400
        return ""

    model = ChatOpenAI(
        model=tiny.MODEL,
        base_url=server.api_url,
        api_key="unused",  # type: ignore[arg-type] # a plain string is taken too
        use_responses_api=True,
        max_retries=0,
        timeout=60,
    )

    def ask(asked: Any, messages: list[Any]) -> Any:
        if not stream:
            return asked.invoke(messages)
        first, *rest = asked.stream(messages)
        return sum(rest, first)

    picture = {"type": "image_url", "image_url": {"url": data_url("green")}}
    seen = ask(model, [HumanMessage([{"type": "text", "text": tiny.ASK_COLOUR}, picture])])
    assert seen.text == tiny.colour_answer("green")

    bound, question = model.bind_tools([screenshot]), HumanMessage(tiny.ASK_SCREENSHOT)
    call = ask(bound, [question])
    (made,) = call.tool_calls
    assert (made["name"], made["args"]) == ("screenshot", {})
    picture = {"type": "image_url", "image_url": {"url": data_url("red")}}
    answer = ask(bound, [question, call, ToolMessage([picture], tool_call_id=made["id"])])
    assert answer.text == tiny.screenshot_answer("red")


# --- openai-js -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["create", "streamed", "helper"])
def test_openai_js_shows_images_and_calls(server: HostServer, way: str) -> None:
    """The call's image is seen, and after it another one of the user."""
    reply = {"type": "function_call_output", "output": [{"type": "input_image", "image_url": data_url("blue")}]}
    picture = {"type": "input_image", "image_url": data_url("red"), "detail": "auto"}
    turns = [
        [{"role": "user", "content": tiny.ASK_SCREENSHOT}],
        [],
        [{"role": "user", "content": [{"type": "input_text", "text": tiny.ASK_COLOUR}, picture]}],
    ]
    request = {"model": tiny.MODEL, "tools": tiny.RESPONSES_FUNCTIONS}
    seen = run_job("openai", "conversation", server.url, way=way, turns=turns, request=request, reply=reply)
    assert "responses" in seen, seen
    asked, saw, saw_again = (response["output"] for response in seen["responses"])
    assert [(item["type"], item["name"]) for item in asked] == [("function_call", "screenshot")]
    assert saw[0]["content"][0]["text"] == tiny.screenshot_answer("blue")
    assert saw_again[0]["content"][0]["text"] == tiny.colour_answer("red")
