"""The Vercel AI SDK: generateText and streamText, whole loops of tools, with and without what the server stores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.node import run_job
from tests.clients.scripts import calls, says
from tests.host.scripted import EngineCall, Script, ScriptedHost
from tests.images import data_url

RED = data_url("red")
PATCH = {"type": "update_file", "path": "a.txt", "diff": "@@\n-a\n+é\n"}

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["generateText", "streamText"])
STORED = pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])


def do(
    job: str, *scripts: Script, reasoning_parser: str | None = None, **options: Any
) -> tuple[dict[str, Any], list[EngineCall]]:
    """What the SDK saw, and the calls of the engine."""
    with ScriptedHost(*scripts, reasoning_parser=reasoning_parser) as host, host.serving() as url:
        return run_job("vercel", job, url, **options), host.engine.calls


@BOTH
def test_an_answer(stream: bool) -> None:
    """System prompt and prompt reach the model; text, end and usage reach the client."""
    seen, (call,) = do("text", says("Ten past nine.", prompt_tokens=7), stream=stream)
    assert (seen["text"], seen["finishReason"], seen["warnings"]) == ("Ten past nine.", "stop", [])
    assert seen["usage"]["inputTokens"] == 7
    assert seen["usage"]["outputTokens"] > 0
    assert call.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What time is it?"},
    ]
    if stream:
        assert len(seen["deltas"]) > 1
        assert "".join(seen["deltas"]) == seen["text"]


@BOTH
def test_an_answer_that_was_cut_off(stream: bool) -> None:
    """The SDK knows it as such."""
    seen, _ = do("text", says("Once upon", finish_reason="length"), stream=stream)
    assert (seen["text"], seen["finishReason"]) == ("Once upon", "length")


@BOTH
def test_an_image(stream: bool) -> None:
    """It reaches the engine as it was."""
    seen, (call,) = do("image", says("Red."), image=RED, stream=stream)
    assert seen["text"] == "Red."
    (message,) = call.messages
    assert [part.get("text") or part["image_url"]["url"] for part in message["content"]] == ["What is this?", RED]


#: A tool, a call as the model writes it, what the tool is run with, and what the model is told.
TOOLS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "look": ({"place": "Łódź"}, {"place": "Łódź"}, "a tree in Łódź"),
    "run": ({"input": 'print("é")\n'}, 'print("é")\n', '<print("é")\n>'),
    "apply_patch": (PATCH, PATCH, "completed: patched"),
    "shell": ({"commands": ["ls"]}, {"commands": ["ls"]}, "a.txt\n[exit code 3]"),
    "local_shell": ({"command": ["ls", "-l"]}, {"type": "exec", "command": ["ls", "-l"], "env": {}}, "a.txt"),
}


@BOTH
@STORED
@pytest.mark.parametrize("name", TOOLS)
def test_a_loop_with_a_tool(name: str, store: bool, stream: bool) -> None:
    """The tool runs, and the next step shows the model its call and the result.

    Unless nothing is stored, the SDK sends calls of all tools but functions as references to what it received.
    """
    arguments, expected, told = TOOLS[name]
    script = calls((name, arguments), before="Now. ")
    provider = {"store": store}
    seen, (first, second) = do("tool", script, says("Done."), tool=name, stream=stream, provider=provider)
    assert (seen["text"], seen["finishReason"], seen["warnings"]) == ("Done.", "stop", [])
    (ran,) = seen["ran"]
    if isinstance(ran, dict):
        ran = {key: value for key, value in ran.items() if value is not None}
    assert ran == expected
    assert seen["steps"] == [["text", "tool-call", "tool-result"], ["text"]]
    assert [tool["function"]["name"] for tool in first.tools or []] == [name]
    _, turn, result = second.messages
    assert turn["content"].strip() == "Now."
    assert [made["function"] for made in turn["tool_calls"]] == [{"name": name, "arguments": arguments}]
    assert (result["role"], result["content"]) == ("tool", told)
    assert result["tool_call_id"] == turn["tool_calls"][0]["id"]
    assert ("item_reference" in seen["sent"][1]) is store


@BOTH
def test_two_calls_at_once(stream: bool) -> None:
    """Both run, and each result stands behind its call."""
    script = calls(("look", {"place": "Rome"}), ("look", {"place": "Oslo"}))
    seen, (_, second) = do("tool", script, says("Trees."), tool="look", stream=stream)
    assert seen["text"] == "Trees."
    assert sorted(ran["place"] for ran in seen["ran"]) == ["Oslo", "Rome"]
    results = [message["content"] for message in second.messages if message["role"] == "tool"]
    assert results == ["a tree in Rome", "a tree in Oslo"]


@BOTH
@STORED
def test_a_tool_that_returns_an_image(store: bool, stream: bool) -> None:
    """The image reaches the engine after the result it belongs to."""
    scripts = calls(("screenshot", {})), says("Red.")
    provider = {"store": store}
    seen, (_, second) = do("tool", *scripts, tool="screenshot", image=RED, stream=stream, provider=provider)
    assert seen["text"] == "Red."
    assert [message["role"] for message in second.messages] == ["user", "assistant", "tool", "user"]
    assert second.messages[2]["content"].startswith("The picture:")
    assert [part["image_url"]["url"] for part in second.messages[3]["content"]] == [RED]


@BOTH
@pytest.mark.parametrize("store", [None, True, False])
def test_a_thought_goes_with_its_call(store: bool | None, stream: bool) -> None:
    """The SDK shows the summary, and sends the thought back: as a reference, or sealed if nothing is stored."""
    provider = {"forceReasoning": True, "reasoningSummary": "auto"}
    if store is not None:
        provider["store"] = store
    script = calls(("look", {"place": "Rome"}), before="<think>I must look.</think>")
    seen, (_, second) = do(
        "tool",
        script,
        says("<think></think>A tree."),
        reasoning_parser="qwen3",
        tool="look",
        stream=stream,
        provider=provider,
    )
    assert (seen["text"].strip(), seen["warnings"]) == ("A tree.", [])
    assert seen["reasoning"][0] == "I must look."
    assert second.messages[1]["reasoning_content"] == "I must look."
    assert len(second.messages[1]["tool_calls"]) == 1
    assert ("item_reference" in seen["sent"][1], "reasoning" in seen["sent"][1]) == (store is not False, store is False)


@BOTH
@STORED
def test_a_search_for_tools(store: bool, stream: bool) -> None:
    """The model is offered a search; what the client finds can be called in the next step."""
    scripts = calls(("tool_search", {"goal": "trees"})), calls(("later", {"place": "Rome"})), says("A tree.")
    seen, engine_calls = do("search", *scripts, stream=stream, provider={"store": store})
    assert seen["text"] == "A tree."
    assert seen["ran"] == [{"goal": "trees"}, {"place": "Rome"}]
    offered = [[tool["function"]["name"] for tool in call.tools or []] for call in engine_calls]
    assert offered == [["tool_search"], ["tool_search", "later"], ["tool_search", "later"]]
    results = [message["content"] for message in engine_calls[2].messages if message["role"] == "tool"]
    assert results == ["Found: later", "a tree in Rome"]


@BOTH
def test_structured_output(stream: bool) -> None:
    """An object of the schema that the client gave."""
    seen, _ = do("structured", says('{"name": "Łódź", "people": 670000}'), stream=stream)
    assert seen["output"] == {"name": "Łódź", "people": 670000}


@BOTH
def test_a_refusal(stream: bool) -> None:
    """The client shows what the server said."""
    with ScriptedHost(says("Hello."), api_key="secret") as host, host.serving() as url:
        seen = run_job("vercel", "text", url, stream=stream)
    assert "API key" in (seen["errors"][0] if stream else seen["error"]["message"])
    if not stream:
        assert (seen["error"]["name"], seen["error"]["status"]) == ("AI_APICallError", 401)


@BOTH
def test_a_failure(stream: bool) -> None:
    """A failure in the middle is an error, and what came before it was shown."""
    script = says("Hello, you.", error=RuntimeError("boom"), error_after=2)
    seen, _ = do("text", script, stream=stream)
    if stream:
        assert "".join(seen["deltas"]) == "Hello, you"[:10]
        assert seen["errors"]
    else:
        assert seen["error"]["status"] == 500
