"""openai-agents: whole runs, in which the SDK calls tools, hands over and sends the results back by itself."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import agents
import openai
import pytest
from agents import Agent, RunConfig, Runner, function_tool
from agents.editor import ApplyPatchOperation, ApplyPatchResult
from openai.types.shared import Reasoning
from pydantic import BaseModel

from tests.clients.scripts import calls, says
from tests.host.scripted import SCRIPTED_MODEL, Script, ScriptedHost
from tests.images import data_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agents.result import RunResultBase

    from tests.host.scripted import EngineCall, ScriptedEngine

RED = data_url("red")


@asynccontextmanager
async def connected(*scripts: Script, **options: Any) -> AsyncIterator[tuple[ScriptedEngine, RunConfig]]:
    """The engine behind the host, and what leads a run to it."""
    with ScriptedHost(*scripts, **options) as host, host.serving() as url:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=20) as client:
            provider = agents.OpenAIProvider(openai_client=client, use_responses=True)
            yield host.engine, RunConfig(model=SCRIPTED_MODEL, model_provider=provider, tracing_disabled=True)


async def run(agent: Agent[Any], task: str, config: RunConfig, *, stream: bool, **options: Any) -> RunResultBase:
    """The run, whole or streamed."""
    if not stream:
        return await Runner.run(agent, task, run_config=config, **options)
    result = Runner.run_streamed(agent, task, run_config=config, **options)
    async for _ in result.stream_events():
        pass
    return result


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def results_of(call: EngineCall) -> list[str]:
    """The texts of the tool messages."""
    return [message["content"] for message in call.messages if message["role"] == "tool"]


def made_by(call: EngineCall) -> list[tuple[str, dict[str, Any]]]:
    """The calls of the history, by name and arguments."""
    made = [tool_call for message in call.messages for tool_call in message.get("tool_calls", [])]
    return [(tool_call["function"]["name"], tool_call["function"]["arguments"]) for tool_call in made]


def images_of(call: EngineCall) -> list[str]:
    contents = [message["content"] for message in call.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


@BOTH
async def test_an_answer(stream: bool) -> None:
    """Instructions and task reach the model, the answer is the final output, and its tokens are counted."""
    async with connected(says("Ten past nine.", prompt_tokens=7)) as (engine, config):
        result = await run(Agent(name="Clock", instructions="Be brief."), "What time is it?", config, stream=stream)
    assert result.final_output == "Ten past nine."
    assert result.context_wrapper.usage.input_tokens == 7
    assert result.context_wrapper.usage.output_tokens > 0
    assert engine.calls[0].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What time is it?"},
    ]
    assert engine.calls[0].streamed is stream


async def test_the_text_arrives_in_pieces() -> None:
    """A streamed run passes the deltas on as they come."""
    async with connected(says("One, two, three.")) as (_, config):
        result = Runner.run_streamed(Agent(name="Counter"), "Count.", run_config=config)
        deltas = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
    assert len(deltas) > 1
    assert "".join(deltas) == result.final_output == "One, two, three."


@BOTH
async def test_a_function_that_returns_an_image(stream: bool) -> None:
    """The image reaches the engine in the turn after the result."""

    @function_tool
    def screenshot(window: str) -> agents.ToolOutputImage:
        """Take a picture of a window."""
        assert window == "Łódź"
        return agents.ToolOutputImage(image_url=RED, detail="low")

    script = calls(("screenshot", {"window": "Łódź"}), before="Looking. ")
    async with connected(script, says("It is red.")) as (engine, config):
        result = await run(Agent(name="Eye", tools=[screenshot]), "Look.", config, stream=stream)
    assert result.final_output == "It is red."
    first, second = engine.calls
    assert first.tools is not None
    assert [tool["function"]["name"] for tool in first.tools] == ["screenshot"]
    assert first.tools[0]["function"]["parameters"]["required"] == ["window"]
    assert made_by(second) == [("screenshot", {"window": "Łódź"})]
    assert images_of(second) == [RED]
    assert [message["role"] for message in second.messages] == ["user", "assistant", "tool", "user"]


@BOTH
async def test_parallel_calls(stream: bool) -> None:
    """Both run, and each result stands behind its call."""

    @function_tool
    def weather(city: str) -> str:
        return f"sun in {city}"

    script = calls(("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"}))
    async with connected(script, says("Sun.")) as (engine, config):
        result = await run(Agent(name="Sky", tools=[weather]), "Weather?", config, stream=stream)
    assert result.final_output == "Sun."
    assert made_by(engine.calls[1]) == [("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"})]
    assert results_of(engine.calls[1]) == ["sun in Rome", "sun in Oslo"]


@BOTH
async def test_handoff(stream: bool) -> None:
    """The other agent goes on, with its own instructions and the history."""
    expert = Agent(name="Expert", instructions="You know it.")
    first = Agent(name="Desk", instructions="You hand over.", handoffs=[expert])
    async with connected(calls(("transfer_to_expert", {})), says("Done.")) as (engine, config):
        result = await run(first, "Help.", config, stream=stream)
    assert (result.final_output, result.last_agent.name) == ("Done.", "Expert")
    assert [call.messages[0]["content"] for call in engine.calls] == ["You hand over.", "You know it."]
    assert made_by(engine.calls[1]) == [("transfer_to_expert", {})]
    assert results_of(engine.calls[1]) == ['{"assistant": "Expert"}']


@BOTH
async def test_apply_patch(stream: bool) -> None:
    """The editor gets each operation, and what it says gets to the model."""
    edits: list[tuple[str, str, str | None]] = []

    class Editor:
        def _edit(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
            edits.append((operation.type, operation.path, operation.diff))
            failed = operation.type == "delete_file"
            return ApplyPatchResult(status="failed" if failed else "completed", output=f"{operation.path} seen")

        create_file = update_file = delete_file = _edit

    operations: list[tuple[str, dict[str, Any]]] = [
        ("apply_patch", {"type": "create_file", "path": "a.txt", "diff": "+é\n"}),
        ("apply_patch", {"type": "update_file", "path": "b.txt", "diff": "@@\n-a\n+b\n"}),
        ("apply_patch", {"type": "delete_file", "path": "c.txt"}),
    ]
    agent = Agent(name="Coder", tools=[agents.ApplyPatchTool(editor=Editor())])
    async with connected(calls(*operations), says("Edited.")) as (engine, config):
        result = await run(agent, "Edit.", config, stream=stream)
    assert result.final_output == "Edited."
    assert sorted(edits) == sorted((made["type"], made["path"], made.get("diff")) for _, made in operations)
    assert made_by(engine.calls[1]) == operations
    assert results_of(engine.calls[1]) == ["completed: a.txt seen", "completed: b.txt seen", "failed: c.txt seen"]


@BOTH
async def test_shell(stream: bool) -> None:
    """The executor gets the commands, and what they printed gets to the model with their exit codes."""
    seen: list[tuple[list[str], int | None]] = []

    async def execute(request: agents.ShellCommandRequest) -> agents.ShellResult:
        seen.append((request.data.action.commands, request.data.action.timeout_ms))
        outcome = agents.ShellCallOutcome(type="exit", exit_code=3)
        return agents.ShellResult([agents.ShellCommandOutput(stdout="a.txt\n", stderr="hm\n", outcome=outcome)])

    made: dict[str, Any] = {"commands": ["ls"], "timeout_ms": 500}
    agent = Agent(name="Coder", tools=[agents.ShellTool(executor=execute)])
    async with connected(calls(("shell", made)), says("One file.")) as (engine, config):
        result = await run(agent, "List.", config, stream=stream)
    assert result.final_output == "One file."
    assert seen == [(["ls"], 500)]
    assert made_by(engine.calls[1]) == [("shell", made)]
    assert results_of(engine.calls[1]) == ["a.txt\nhm\n[exit code 3]"]


@BOTH
async def test_local_shell(stream: bool) -> None:
    """The older tool gets program and arguments."""

    def execute(request: agents.LocalShellCommandRequest) -> str:
        return f"ran {request.data.action.command}"

    agent = Agent(name="Coder", tools=[agents.LocalShellTool(executor=execute)])
    async with connected(calls(("local_shell", {"command": ["ls", "-l"]})), says("Ran.")) as (engine, config):
        result = await run(agent, "List.", config, stream=stream)
    assert result.final_output == "Ran."
    assert made_by(engine.calls[1]) == [("local_shell", {"command": ["ls", "-l"]})]
    assert results_of(engine.calls[1]) == ["ran ['ls', '-l']"]


@BOTH
async def test_custom_tools(stream: bool) -> None:
    """The tool gets the text as the model wrote it."""

    def run_code(_: Any, source: str) -> str:
        return f"<{source}>"

    tool = agents.CustomTool(name="run", description="Runs code.", on_invoke_tool=run_code)
    async with connected(calls(("run", {"input": 'print("é")\n'})), says("Ran.")) as (engine, config):
        result = await run(Agent(name="Coder", tools=[tool]), "Run.", config, stream=stream)
    assert result.final_output == "Ran."
    assert made_by(engine.calls[1]) == [("run", {"input": 'print("é")\n'})]
    assert results_of(engine.calls[1]) == ['<print("é")\n>']


@BOTH
async def test_namespaces(stream: bool) -> None:
    """A function of a group is found by its name and its group, among functions of the same name."""

    def named(answer: str) -> Any:
        @function_tool(name_override="look")
        def look() -> str:
            return answer

        return look

    tools = [
        named("bare"),
        *agents.tool_namespace(name="crm", description="Customers.", tools=[named("crm")]),
        *agents.tool_namespace(name="erp", description="Stock.", tools=[named("erp")]),
    ]
    script = calls(("crm__look", {}), ("erp__look", {}), ("look", {}))
    async with connected(script, says("Seen.")) as (engine, config):
        result = await run(Agent(name="Clerk", tools=tools), "Look.", config, stream=stream)
    assert result.final_output == "Seen."
    assert results_of(engine.calls[1]) == ["crm", "erp", "bare"]
    assert made_by(engine.calls[1]) == [("crm__look", {}), ("erp__look", {}), ("look", {})]


class City(BaseModel):
    name: str
    people: int


@BOTH
@pytest.mark.parametrize("with_tools", [False, True])
async def test_structured_output(with_tools: bool, stream: bool) -> None:
    """The final output is the type that the agent wants, also after a call of a tool."""

    @function_tool
    def look(city: str) -> str:
        return f"{city} has 670000"

    scripts = [calls(("look", {"city": "Łódź"}))] if with_tools else []
    agent = Agent(name="Map", output_type=City, tools=[look] if with_tools else [])
    async with connected(*scripts, says('{"name": "Łódź", "people": 670000}')) as (engine, config):
        result = await run(agent, "A city.", config, stream=stream)
    assert result.final_output == City(name="Łódź", people=670000)
    assert len(engine.calls) == 1 + with_tools


@BOTH
@pytest.mark.parametrize("automatic", [False, True])
async def test_the_server_remembers(automatic: bool, stream: bool) -> None:
    """With the id of the response before, only what is new is sent, and the model still sees everything."""

    @function_tool
    def look() -> str:
        return "a tree"

    agent = Agent(name="Eye", tools=[look])
    async with connected(calls(("look", {})), says("A tree."), says("Green.")) as (engine, config):
        options = {"auto_previous_response_id": True} if automatic else {}
        first = await run(agent, "Look.", config, stream=stream, **options)
        second = await run(agent, "Which colour?", config, stream=stream, previous_response_id=first.last_response_id)
    assert second.final_output == "Green."
    assert [message["role"] for message in engine.calls[1].messages] == ["user", "assistant", "tool"]
    assert [message["role"] for message in engine.calls[2].messages] == [
        *("user", "assistant", "tool", "assistant", "user"),
    ]
    assert results_of(engine.calls[2]) == ["a tree"]
    assert engine.calls[2].messages[-1]["content"] == "Which colour?"


@BOTH
async def test_a_thought_goes_with_its_call(stream: bool) -> None:
    """The SDK sends reasoning back, and it stands in the turn of the call that it led to."""

    @function_tool
    def look() -> str:
        return "a tree"

    scripts = [calls(("look", {}), before="<think>I must look.</think>"), says("<think></think>A tree.")]
    async with connected(*scripts, reasoning_parser="qwen3") as (engine, config):
        result = await run(Agent(name="Eye", tools=[look]), "Look.", config, stream=stream)
    assert result.final_output.strip() == "A tree."
    assert engine.calls[1].messages[1]["reasoning_content"] == "I must look."
    assert len(engine.calls[1].messages[1]["tool_calls"]) == 1


@BOTH
async def test_settings_and_hosted_tools_are_no_obstacle(stream: bool) -> None:
    """Whatever an agent sets is accepted; the model is offered what runs here, and told that it must call it."""

    @function_tool
    def look() -> str:
        return "a tree"

    hosted: list[Any] = [
        agents.WebSearchTool(),
        agents.FileSearchTool(vector_store_ids=["vs_1"]),
        agents.CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}),
        agents.ImageGenerationTool({"type": "image_generation"}),
        agents.HostedMCPTool({"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1:9"}),
    ]
    settings = agents.ModelSettings(
        temperature=0.5,
        top_p=0.9,
        tool_choice="required",
        parallel_tool_calls=False,
        truncation="auto",
        max_tokens=50,
        reasoning=Reasoning(effort="low", summary="auto"),
        verbosity="low",
        metadata={"a": "b"},
        store=False,
        include_usage=True,
        response_include=["reasoning.encrypted_content"],
        top_logprobs=1,
    )
    agent = Agent(name="Eye", tools=[*hosted, look], model_settings=settings)
    async with connected(calls(("look", {})), says("A tree.")) as (engine, config):
        result = await run(agent, "Look.", config, stream=stream)
    assert result.final_output == "A tree."
    assert [[tool["function"]["name"] for tool in call.tools or []] for call in engine.calls] == [["look"]] * 2
    first, second = engine.calls
    assert (first.kwargs["temperature"], first.kwargs["top_p"], first.kwargs["max_tokens"]) == (0.5, 0.9, 50)
    # The SDK asks for a call once, so that the run can end.
    assert "MUST call" in json.dumps(first.messages)
    assert "MUST call" not in json.dumps(second.messages)


@BOTH
async def test_a_failure_is_an_exception(stream: bool) -> None:
    """A run does not end as if it had an answer."""
    async with connected(says("Hello, you.", error=RuntimeError("boom"), error_after=1)) as (_, config):
        with pytest.raises(openai.APIError) as caught:
            await run(Agent(name="Eye"), "Look.", config, stream=stream)
    assert caught.value.code == "server_error"
    assert json.dumps(caught.value.body)
