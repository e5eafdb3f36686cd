"""The two endpoints that behave alike, ``/v1/responses`` and ``/v1/chat/completions``: the same asked of either."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.sse import joined_deltas, read_stream, terminal_response

if TYPE_CHECKING:
    import httpx

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"

#: Runs a test once for each of them, with the path as ``path``.
on_both_paths = pytest.mark.parametrize("path", [RESPONSES, CHAT])

#: Headers that tell a client what to do about a refusal.
_TELLING = ("retry-after", "www-authenticate")


def body_for(path: str, text: str = "hi", /, *, image: str | None = None, **fields: Any) -> dict[str, Any]:
    """The body of a user turn, with an image after its text or without."""
    if path == RESPONSES:
        picture = [{"type": "input_image", "image_url": image}] if image else []
        return {"input": [{"role": "user", "content": [{"type": "input_text", "text": text}, *picture]}], **fields}
    picture = [{"type": "image_url", "image_url": {"url": image}}] if image else []
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": text}, *picture]}], **fields}


def text_of(response: httpx.Response) -> str:
    """What was said in a whole answer of either endpoint, streamed or not."""
    assert response.status_code == 200, response.text
    return _said(response)[0]


def model_of(response: httpx.Response) -> str:
    """The model that such an answer names."""
    return _said(response)[1]


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error of ours, after a check that the body is OpenAI's shape and nothing else."""
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}, body
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert isinstance(error["message"], str)
    assert isinstance(error["type"], str)
    assert isinstance(error["code"], str)
    return dict(error)


def refused_alike(ours: httpx.Response, chat: httpx.Response) -> dict[str, Any]:
    """The error of ours, after a check that the chat endpoint refuses with the same status, headers and words.

    The host gives no type and no code, only a text under ``detail``.
    """
    error = error_of(ours)
    assert chat.json() == {"detail": error["message"]}
    assert ours.status_code == chat.status_code
    for name in _TELLING:
        assert (name in ours.headers) == (name in chat.headers), name
    return error


def _said(response: httpx.Response) -> tuple[str, str]:
    if "messages" in json.loads(response.request.content):
        return _said_in_chat(response)
    if _is_streamed(response):
        events = read_stream(response.content)
        answer = terminal_response(events)
        text = joined_deltas(events)
    else:
        answer = response.json()
        text = "".join(part["text"] for item in answer["output"] for part in item["content"])
    assert answer["status"] == "completed", answer
    return text, answer["model"]


def _said_in_chat(response: httpx.Response) -> tuple[str, str]:
    if not _is_streamed(response):
        answer = response.json()
        return answer["choices"][0]["message"]["content"], answer["model"]
    lines = response.text.splitlines()
    assert [line for line in lines if line][-1] == "data: [DONE]"
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas), chunks[0]["model"]


def _is_streamed(response: httpx.Response) -> bool:
    return response.headers["content-type"].startswith("text/event-stream")
