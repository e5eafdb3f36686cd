"""A tool exchange with the tiny model, through both engines and both endpoints: the model is told all of it.

The symptom of a host that loses it: the continuation is no longer than the fresh prompt, and the model calls again
instead of answering (vllm-mlx#608).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mlx_vlm
import pytest
from starlette.testclient import TestClient
from vllm_mlx import server
from vllm_mlx.engine.batched import BatchedEngine
from vllm_mlx.engine.simple import SimpleEngine

import responses_plugin
from tests import tiny
from tests.host.servers import TINY_VLM
from tests.images import data_url
from tests.sse import read_stream, terminal_response

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, Any]

pytestmark = pytest.mark.contract

ENGINES = {"simple": SimpleEngine, "batched": BatchedEngine}
PLACEHOLDER = "<|image_pad|>"
WORDS = {"type": "text", "text": "Screenshot taken."}


@dataclass
class Answer:
    """What a client gets."""

    text: str
    calls: list[tuple[str, str]]
    prompt_tokens: int


@dataclass
class Host:
    """The tiny model behind the host's app, with a note of what reached the model."""

    client: TestClient
    #: Rendered prompt and image payloads of each generation.
    seen: list[tuple[str, list[str]]] = field(default_factory=list)

    def chat(self, messages: list[Message], *, stream: bool) -> Answer:
        body = self._body(messages=messages, tools=tiny.CHAT_TOOLS, stream=stream, max_tokens=64)
        if stream:
            body["stream_options"] = {"include_usage": True}
        answer = self._post("/v1/chat/completions", body)
        if not stream:
            message = answer.json()["choices"][0]["message"]
            return _chat_answer([message], answer.json()["usage"])
        chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        usage = next(chunk["usage"] for chunk in reversed(chunks) if chunk.get("usage"))
        return _chat_answer([choice["delta"] for chunk in chunks for choice in chunk["choices"]], usage)

    def respond(self, items: list[dict[str, Any]], *, stream: bool) -> Answer:
        body = self._body(input=items, tools=tiny.RESPONSES_TOOLS, stream=stream, max_output_tokens=64)
        answer = self._post("/v1/responses", body)
        response = terminal_response(read_stream(answer.content)) if stream else answer.json()
        assert response["status"] == "completed", response
        texts = [part["text"] for item in response["output"] for part in item.get("content") or ()]
        calls = [(item["name"], item["arguments"]) for item in response["output"] if item["type"] == "function_call"]
        return Answer("".join(texts), calls, response["usage"]["input_tokens"])

    def _body(self, **fields: Any) -> dict[str, Any]:
        return {"model": tiny.MODEL, "temperature": 0, **fields}

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer


def _chat_answer(pieces: list[dict[str, Any]], usage: dict[str, Any]) -> Answer:
    text = "".join(piece.get("content") or "" for piece in pieces)
    functions = [call["function"] for piece in pieces for call in piece.get("tool_calls") or ()]
    return Answer(text, [(each["name"], each["arguments"]) for each in functions], usage["prompt_tokens"])


@pytest.fixture(scope="module", params=list(ENGINES))
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host with the plugin and each of its engines."""
    with pytest.MonkeyPatch.context() as patch:
        engine = ENGINES[request.param](str(TINY_VLM), force_mllm=True)
        for name, value in {
            "_engine": engine,
            "_model_name": tiny.MODEL,
            "_enable_auto_tool_choice": True,
            "_tool_call_parser": "hermes",
            "_tool_parser_instance": None,
            "_auth_warning_logged": True,
        }.items():
            patch.setattr(server, name, value)
        engine.preserve_native_tool_format = server._detect_native_tool_support()
        responses_plugin.enable()
        try:
            with TestClient(server.app) as client:
                host = Host(client)
                note_prompts(patch, engine, host.seen)
                yield host
        finally:
            responses_plugin.disable()


def note_prompts(patch: pytest.MonkeyPatch, engine: Any, seen: list[tuple[str, list[str]]]) -> None:
    def note(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            prompt, images = args[2:4] if args else (kwargs["prompt"], kwargs["images"])
            seen.append((prompt, list(images or ())))
            return original(*args, **kwargs)

        patch.setattr(owner, name, noted)

    if isinstance(engine, SimpleEngine):
        note(mlx_vlm, "generate")
        note(mlx_vlm, "stream_generate")
    else:
        note(engine._mllm_scheduler, "add_request_async")


@pytest.fixture(params=[False, True], ids=["json", "sse"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def chat_call(name: str, arguments: str = "{}", call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def picture(colour: str, side: int = 64) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(colour, size=(side, side))}}


# --- Text ------------------------------------------------------------------------------------------------------------


def test_responses_answers_from_the_result(host: Host, stream: bool) -> None:
    """The fresh turn calls; the continuation is strictly longer, and is answered from the result."""
    question = {"role": "user", "content": tiny.ASK_WEATHER}
    fresh = host.respond([question], stream=stream)
    [(name, arguments)] = fresh.calls
    call = {"type": "function_call", "call_id": "call_1", "name": name, "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "call_1", "output": tiny.WEATHER_RESULT}
    continued = host.respond([question, call, result], stream=stream)
    assert continued.prompt_tokens > fresh.prompt_tokens
    assert (continued.text, continued.calls) == (tiny.WEATHER_ANSWER, [])


@pytest.mark.parametrize("content", ["", None])
def test_chat_answers_from_the_result(host: Host, stream: bool, content: str | None) -> None:
    """So it is for clients of the host's own endpoint, whatever the empty content of the call is."""
    question = {"role": "user", "content": tiny.ASK_WEATHER}
    fresh = host.chat([question], stream=stream)
    [(name, arguments)] = fresh.calls
    called = {"role": "assistant", "content": content, "tool_calls": [chat_call(name, arguments)]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": tiny.WEATHER_RESULT}
    continued = host.chat([question, called, result], stream=stream)
    assert continued.prompt_tokens > fresh.prompt_tokens
    assert (continued.text, continued.calls) == (tiny.WEATHER_ANSWER, [])


def test_results_of_parallel_calls_stay_apart(host: Host, stream: bool) -> None:
    """Two calls of one turn and their results stand in the prompt as two of each, in order."""
    calls = [chat_call("get_weather", json.dumps({"city": city}), f"call_{city}") for city in ("Paris", "Rome")]
    messages = [
        {"role": "user", "content": tiny.ASK_TWO_WEATHERS},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_Paris", "content": "sunny there"},
        {"role": "tool", "tool_call_id": "call_Rome", "content": "rainy there"},
    ]
    host.seen.clear()
    host.chat(messages, stream=stream)
    [(prompt, _)] = host.seen
    in_order(prompt, tiny.ASK_TWO_WEATHERS, '"Paris"', '"Rome"', "<tool_response>", "sunny", "<tool_response>", "rainy")


# --- Images ----------------------------------------------------------------------------------------------------------


def test_an_image_of_a_tool_is_seen(host: Host, stream: bool) -> None:
    """The prompt holds call, result and image in this order, one placeholder for one payload, and is understood."""
    colours = {False: "red", True: "blue"}
    items = [
        {"role": "user", "content": tiny.ASK_SCREENSHOT},
        {"type": "function_call", "call_id": "call_1", "name": "screenshot", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [
                {"type": "input_text", "text": "Screenshot taken."},
                {"type": "input_image", "image_url": data_url(colours[stream])},
            ],
        },
    ]
    host.seen.clear()
    continued = host.respond(items, stream=stream)
    fresh = host.respond(items[:1], stream=stream)
    prompt, images = host.seen[0]
    assert continued.text == tiny.screenshot_answer(colours[stream])
    assert continued.prompt_tokens > fresh.prompt_tokens
    assert (prompt.count(PLACEHOLDER), len(images)) == (1, 1)
    call = '"name": "screenshot", "arguments": {}'
    in_order(prompt, tiny.ASK_SCREENSHOT, call, "<tool_response>", tiny.IMAGE_MARKER, PLACEHOLDER)


def test_the_next_image_is_seen_as_well(host: Host, stream: bool) -> None:
    """Prompts that differ in their image alone are answered by image: no cache takes one for the other."""
    answers = [
        host.chat(screenshot_exchange(picture(colour, side=32), in_tool=False), stream=stream).text
        for colour in ("green", "yellow", "green")
    ]
    assert answers == [tiny.screenshot_answer(colour) for colour in ("green", "yellow", "green")]


def test_an_image_in_a_tool_message_has_its_payload(host: Host, stream: bool) -> None:
    """Chat clients put it there. There is one placeholder for it, within the result, and one payload."""
    host.seen.clear()
    host.chat(screenshot_exchange(picture("red", side=48 + stream), in_tool=True), stream=stream)
    [(prompt, images)] = host.seen
    assert (prompt.count(PLACEHOLDER), len(images)) == (1, 1)
    in_order(prompt, tiny.ASK_SCREENSHOT, "<tool_response>", "Screenshot taken.", PLACEHOLDER, "</tool_response>")


def screenshot_exchange(image: dict[str, Any], *, in_tool: bool) -> list[Message]:
    text = f"Screenshot taken.\n{tiny.IMAGE_MARKER}"
    return [
        {"role": "user", "content": tiny.ASK_SCREENSHOT},
        {"role": "assistant", "content": "", "tool_calls": [chat_call("screenshot")]},
        {"role": "tool", "tool_call_id": "call_1", "content": [WORDS, image] if in_tool else text},
        *([] if in_tool else [{"role": "user", "content": [image]}]),
    ]


def in_order(text: str, *landmarks: str) -> None:
    """Each landmark stands behind the one before it."""
    place = 0
    for landmark in landmarks:
        found = text.find(landmark, place)
        assert found >= 0, f"{landmark!r} is missing in {text[place:]!r}"
        place = found + len(landmark)
