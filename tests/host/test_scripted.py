"""The scripted engine behaves as an engine, and the host as with any other; checked on the host's own chat endpoint."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
import vllm_mlx.server as host_server

from tests.host.scripted import Gate, Script, ScriptedHost, wait_until_async

pytestmark = pytest.mark.contract

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}


def chunks(body: str) -> list[dict[str, Any]]:
    """The chunks of a chat stream."""
    frames = [line.removeprefix("data: ") for line in body.split("\n") if line.startswith("data: ")]
    assert frames.pop() == "[DONE]"
    return [json.loads(frame) for frame in frames]


def content(body: str) -> str:
    """Their text."""
    return "".join(choice["delta"].get("content") or "" for chunk in chunks(body) for choice in chunk["choices"])


async def test_a_script_is_the_whole_answer() -> None:
    """The pieces joined are the text, and the counts and the finish reason are those of the script."""
    script = Script(["Hel", "lo"], finish_reason="length", prompt_tokens=7, completion_tokens=5)
    with ScriptedHost(script, plugin=False) as host:
        completion = (await host.post(CHAT, messages=HELLO, temperature=0.5)).json()
    assert completion["choices"][0]["message"]["content"] == "Hello"
    assert completion["choices"][0]["finish_reason"] == "length"
    assert completion["usage"] == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    (call,) = host.engine.calls
    assert (call.messages, call.kwargs["temperature"], call.streamed) == (HELLO, 0.5, False)
    assert (call.finished, call.aborted, call.emitted) == (True, False, 2)


@pytest.mark.parametrize("finish_alone", [False, True])
async def test_a_script_is_streamed_piece_by_piece(finish_alone: bool) -> None:
    """Each piece is one chunk, and one chunk tells the finish reason, whether or not it comes with the last piece."""
    with ScriptedHost(Script(["a", "b", "c"], finish_alone=finish_alone), plugin=False) as host:
        received = chunks((await host.post(CHAT, messages=HELLO, stream=True)).text)
    deltas = [choice["delta"].get("content") for chunk in received for choice in chunk["choices"]]
    assert [delta for delta in deltas if delta] == ["a", "b", "c"]
    reasons = [choice["finish_reason"] for chunk in received for choice in chunk["choices"]]
    assert [reason for reason in reasons if reason] == ["stop"]


async def test_scripts_are_played_in_order_and_the_last_one_stays() -> None:
    """One script a call; the last one answers every further call."""
    with ScriptedHost(Script(["one"]), Script(["two"]), plugin=False) as host:
        answers = [content((await host.post(CHAT, messages=HELLO, stream=True)).text) for _ in range(3)]
    assert answers == ["one", "two", "two"]


async def test_the_hosts_tool_parser_reads_the_script() -> None:
    """The parser named is the one that runs, and native tool messages are kept as it says."""
    script = Script(['<tool_call>{"name": "look", ', '"arguments": {"at": "sky"}}</tool_call>'])
    with ScriptedHost(script, plugin=False) as host:
        assert host.engine.preserve_native_tool_format is True
        completion = (await host.post(CHAT, messages=HELLO, tools=[TOOL])).json()
    (call,) = completion["choices"][0]["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("look", {"at": "sky"})
    (engine_call,) = host.engine.calls
    assert engine_call.tools is not None
    assert engine_call.tools[0]["function"]["name"] == "look"


@pytest.mark.parametrize("opens_thinking", [False, True])
async def test_the_hosts_reasoning_parser_reads_the_script(opens_thinking: bool) -> None:
    """Thoughts are told apart, also when the prompt has already opened them."""
    pieces = ["" if opens_thinking else "<think>", "Hm.", "</think>", "Yes."]
    with ScriptedHost(Script(pieces), reasoning_parser="qwen3", opens_thinking=opens_thinking, plugin=False) as host:
        received = chunks((await host.post(CHAT, messages=HELLO, stream=True)).text)
    deltas = [choice["delta"] for chunk in received for choice in chunk["choices"]]
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "Hm."
    assert "".join(delta.get("content") or "" for delta in deltas) == "Yes."


async def test_text_only_engines_get_no_images() -> None:
    """``mllm=False`` makes the host take its path for text models."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}, picture]}]
    seen = []
    for mllm in (True, False):
        with ScriptedHost(Script(["ok"]), mllm=mllm, plugin=False) as host:
            await host.post(CHAT, messages=messages)
            seen.append(host.engine.calls[0].messages[0]["content"])
    assert [isinstance(seen_content, list) for seen_content in seen] == [True, False]


async def test_an_error_ends_the_call() -> None:
    """The exception comes in place of the piece it was set for, in a stream after the pieces before it."""
    script = Script(["a", "b"], error=RuntimeError("out of memory"), error_after=1)
    with ScriptedHost(script, plugin=False) as host:
        assert (await host.post(CHAT, messages=HELLO)).status_code == 500
        streamed = await host.post(CHAT, messages=HELLO, stream=True)
    assert '"content":"a"' in streamed.text
    assert '"content":"b"' not in streamed.text
    assert streamed.text.endswith("data: [DONE]\n\n"), "whether the stream says why differs by release"
    assert [(call.emitted, call.finished, call.aborted) for call in host.engine.calls] == [(1, False, False)] * 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_aborts_the_engine(stream: bool) -> None:
    """Under a real server, closing the connection cancels the engine's call, and the call knows."""
    gate = Gate()
    with (
        ScriptedHost(Script(["a", "b"], gates={1: gate}), plugin=False) as host,
        host.serving() as url,
    ):
        async with httpx.AsyncClient(base_url=url) as client:
            body = {"model": "scripted", "messages": HELLO, "stream": stream}
            request = asyncio.ensure_future(client.post(CHAT, json=body))
            await wait_until_async(gate.reached.is_set, "the engine to generate")
            request.cancel()
        (call,) = host.engine.calls
        await wait_until_async(call.over.is_set, "the engine to be stopped")
    assert (call.aborted, call.finished, call.emitted) == (True, False, 1)


async def test_pieces_arrive_while_the_engine_still_works() -> None:
    """Under a real server a client reads the first piece while the engine waits before the second."""
    gate = Gate()
    with (
        ScriptedHost(Script(["first", "second"], gates={1: gate}), plugin=False) as host,
        host.serving() as url,
    ):
        body = {"model": "scripted", "messages": HELLO, "stream": True}
        received = ""
        async with httpx.AsyncClient(base_url=url) as client, client.stream("POST", CHAT, json=body) as response:
            async for text in response.aiter_text():
                received += text
                if "first" in received:  # else the gate stays shut, and the read times out
                    gate.open()
    assert content(received) == "firstsecond"


async def test_an_api_key_is_asked_for() -> None:
    """The host's own settings can be chosen, and the host's client knows the key."""
    with ScriptedHost(api_key="secret", plugin=False) as host:
        assert (await host.post(CHAT, messages=HELLO)).status_code == 200
        async with httpx.AsyncClient(transport=httpx.ASGITransport(host.app), base_url="http://host") as stranger:
            refused = await stranger.post(CHAT, json={"model": "scripted", "messages": HELLO})
    assert refused.status_code == 401


def test_the_host_is_left_as_it_was() -> None:
    """Every global that was set has its old value again, also after a failed block, and the routes are the same."""
    before = {name: value for name, value in vars(host_server).items() if not name.startswith("__")}
    routes = list(host_server.app.router.routes)
    with pytest.raises(LookupError), ScriptedHost(tool_parser="qwen3_xml", reasoning_parser="qwen3"):
        raise LookupError
    after = {name: value for name, value in vars(host_server).items() if not name.startswith("__")}
    assert {name for name in before | after if before.get(name) is not after.get(name)} == set()
    assert list(host_server.app.router.routes) == routes


def test_an_unknown_setting_is_refused() -> None:
    """A global that the host does not have is a mistake in the test, and changes nothing."""
    with pytest.raises(AttributeError), ScriptedHost(globals={"_no_such_setting": 1}):
        pass
    assert host_server._engine is None
