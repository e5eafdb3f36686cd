"""Requests."""

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

MODEL = "scripted"
RESPONSES = "/v1/responses"
CHAT = "/v1/chat/completions"
_QUESTION = "Say something long."


def responses_request(*, stream: bool, tools: bool = False, input: Any = _QUESTION) -> Request:
    """A request for the plugin, or for the endpoint that it replaces."""
    body: dict[str, Any] = {"model": MODEL, "input": input, "stream": stream}
    if tools:
        body["tools"] = [TOOL]
    return Request(RESPONSES, json.dumps(body).encode())


def chat_request(*, stream: bool, tools: bool = False) -> Request:
    """The same request for the host's chat endpoint."""
    messages = [{"role": "user", "content": _QUESTION}]
    body: dict[str, Any] = {"model": MODEL, "messages": messages, "stream": stream}
    if stream:
        # What the plugin asks for too: the counts of tokens.
        body["stream_options"] = {"include_usage": True}
    if tools:
        function = {name: value for name, value in TOOL.items() if name != "type"}
        body["tools"] = [{"type": "function", "function": function}]
    return Request(CHAT, json.dumps(body).encode())


def image_request(count: int, size: int, *, stream: bool = True) -> Request:
    """One user message with ``count`` images of about ``size`` bytes each, half of them PNG and half JPEG."""
    parts: list[dict[str, Any]] = [{"type": "input_text", "text": "Compare these images."}]
    parts += [{"type": "input_image", "image_url": _noise_url(index, size)} for index in range(count)]
    return responses_request(stream=stream, input=[{"role": "user", "content": parts}])


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


def history_request(items: int, *, stream: bool = True) -> Request:
    """An agent's session as it is sent with every turn: reasoning, text, a call and its output, again and again."""
    history: list[dict[str, Any]] = []
    while len(history) < items:
        turn = len(history)
        call_id = f"call_{turn}"
        arguments = json.dumps({"path": f"src/module_{turn}.py", "why": "".join(words(30))})
        history += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "".join(words(60))}]},
            {
                "type": "reasoning",
                "id": f"rs_{turn}",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "".join(words(100))}],
            },
            {
                "type": "message",
                "id": f"msg_{turn}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "".join(words(40)), "annotations": []}],
            },
            {
                "type": "function_call",
                "id": f"fc_{turn}",
                "call_id": call_id,
                "name": "read_file",
                "arguments": arguments,
            },
            {"type": "function_call_output", "call_id": call_id, "output": "".join(words(300))},
        ]
    return responses_request(stream=stream, tools=True, input=history[:items])
