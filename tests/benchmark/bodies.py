"""Requests: what the plugin is asked, and the same for the host's chat endpoint."""

from __future__ import annotations

import base64
import functools
import io
import json
import random
from typing import Any

from PIL import Image

from tests.benchmark.exchange import Request
from tests.benchmark.scripts import TOOL, words

RESPONSES = "/v1/responses"
CHAT = "/v1/chat/completions"
MODEL = "scripted"
_QUESTION = "Say something long."


def responses_request(*, stream: bool, tools: bool = False, input: Any = _QUESTION, **fields: Any) -> Request:
    """A request for the plugin, or for the endpoint that it replaces."""
    if tools:
        fields["tools"] = [{"type": "function", **TOOL}]
    return _request(RESPONSES, input=input, stream=stream, **fields)


def chat_request(*, stream: bool, tools: bool = False, messages: list[Any] | None = None) -> Request:
    """A request for the host's chat endpoint."""
    fields: dict[str, Any] = {"messages": messages or [{"role": "user", "content": _QUESTION}], "stream": stream}
    if stream:
        # What the plugin asks for too: the counts of tokens.
        fields["stream_options"] = {"include_usage": True}
    if tools:
        fields["tools"] = [{"type": "function", "function": TOOL}]
    return _request(CHAT, **fields)


def _request(path: str, **fields: Any) -> Request:
    return Request(path, json.dumps({"model": MODEL, **fields}).encode())


# --- Images ----------------------------------------------------------------------------------------------------------


def image_request(count: int, size: int, *, stream: bool = True) -> Request:
    """One user message with ``count`` images of about ``size`` bytes each, half of them PNG and half JPEG."""
    parts = [{"type": "input_image", "image_url": _noise_url(index, size)} for index in range(count)]
    content = [{"type": "input_text", "text": "Compare these images."}, *parts]
    return responses_request(stream=stream, input=[{"role": "user", "content": content}])


def image_chat_request(count: int, size: int) -> Request:
    """The same images for the host's chat endpoint."""
    parts = [{"type": "image_url", "image_url": {"url": _noise_url(index, size)}} for index in range(count)]
    content = [{"type": "text", "text": "Compare these images."}, *parts]
    return chat_request(stream=True, messages=[{"role": "user", "content": content}])


@functools.cache
def _noise_url(seed: int, size: int) -> str:
    """A real image of noise, which no format can compress: three bytes a pixel as PNG, and 0.9 as JPEG."""
    image_format, bytes_per_pixel = [("png", 3.0), ("jpeg", 0.9)][seed % 2]
    side = max(1, int((size / bytes_per_pixel) ** 0.5))
    noise = random.Random(seed).randbytes(side * side * 3)
    buffer = io.BytesIO()
    # No effort: it would not make noise smaller. Quality 90 is what screenshots are saved with.
    options: dict[str, int] = {"compress_level": 0} if image_format == "png" else {"quality": 90}
    Image.frombytes("RGB", (side, side), noise).save(buffer, image_format, **options)
    return f"data:image/{image_format};base64,{base64.b64encode(buffer.getvalue()).decode()}"


# --- A long session --------------------------------------------------------------------------------------------------

_ITEMS_PER_TURN = 5
_ASKED, _THOUGHT, _SAID, _READ = ("".join(words(count)) for count in (60, 100, 40, 300))
_ARGUMENTS = json.dumps({"text": "".join(words(30))})


def history_request(items: int, *, stream: bool = True) -> Request:
    """An agent's session as it is sent with every turn: reasoning, text, a call and its output, again and again."""
    turns = -(-items // _ITEMS_PER_TURN)
    history = [item for turn in range(turns) for item in _items_of_turn(turn)]
    return responses_request(stream=stream, tools=True, input=history[:items])


def history_chat_request(items: int) -> Request:
    """The same session for the host's chat endpoint."""
    turns = -(-items // _ITEMS_PER_TURN)
    messages = [message for turn in range(turns) for message in _messages_of_turn(turn)]
    return chat_request(stream=True, tools=True, messages=messages)


def _items_of_turn(turn: int) -> list[dict[str, Any]]:
    call = {"call_id": f"call_{turn}", "name": TOOL["name"], "arguments": _ARGUMENTS}
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _ASKED}]},
        {
            "type": "reasoning",
            "id": f"rs_{turn}",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": _THOUGHT}],
        },
        {
            "type": "message",
            "id": f"msg_{turn}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": _SAID, "annotations": []}],
        },
        {"type": "function_call", "id": f"fc_{turn}", **call},
        {"type": "function_call_output", "call_id": f"call_{turn}", "output": _READ},
    ]


def _messages_of_turn(turn: int) -> list[dict[str, Any]]:
    function = {"name": TOOL["name"], "arguments": _ARGUMENTS}
    call = {"id": f"call_{turn}", "type": "function", "function": function}
    return [
        {"role": "user", "content": _ASKED},
        {"role": "assistant", "content": _SAID, "reasoning_content": _THOUGHT, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{turn}", "content": _READ},
    ]
