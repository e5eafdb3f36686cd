"""Bodies of many megabytes, over a real connection: the screenshots of a long session add up.

Within the limit they are answered. Beyond it they are refused while the client is still sending, and it gets to read why.
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from responses_plugin.settings import Settings
from tests.host.scripted import SCRIPTED_MODEL, ScriptedHost
from tests.images import image_bytes
from tests.sse import read_stream, terminal_response

pytestmark = pytest.mark.contract

MEGABYTE = 1 << 20
LIMIT = 4 * MEGABYTE
IMAGES = 5
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def history() -> list[dict[str, Any]]:
    """Some screenshots that a tool took: 60 MB of JSON."""
    # What follows the end of a PNG is none of its business.
    image = image_bytes("red") + bytes(9 * MEGABYTE)
    part = {"type": "input_image", "image_url": "data:image/png;base64," + base64.b64encode(image).decode()}
    items: list[dict[str, Any]] = [{"role": "user", "content": "What do you see?"}]
    for number in range(IMAGES):
        call_id = f"call_{number}"
        items += [
            {"type": "function_call", "call_id": call_id, "name": "screenshot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call_id, "output": [part]},
        ]
    return items


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
def test_sixty_megabytes_are_answered(history: list[dict[str, Any]], stream: bool) -> None:
    """With the limit that is the default, whole and streamed, and every image reaches the engine."""
    body = json.dumps({"model": SCRIPTED_MODEL, "input": history, "stream": stream}).encode()
    assert len(body) >= 60 * 1000 * 1000
    with ScriptedHost() as host, host.serving() as url:
        answer = httpx.post(f"{url}/v1/responses", content=body, headers=JSON, timeout=60)
    assert answer.status_code == 200
    response = terminal_response(read_stream(answer.content)) if stream else answer.json()
    assert response["status"] == "completed"
    (call,) = host.engine.calls
    contents = [message["content"] for message in call.messages if isinstance(message["content"], list)]
    assert [part["type"] for content in contents for part in content] == ["image_url"] * IMAGES


@pytest.fixture
def small() -> Iterator[tuple[ScriptedHost, str]]:
    """A server that takes less than is sent to it."""
    with ScriptedHost(options=Settings(max_body_bytes=LIMIT)) as host, host.serving() as url:
        yield host, url


def check_refusal(error: dict[str, Any]) -> None:
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, "request_too_large")
    assert f"larger than {LIMIT} bytes" in error["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
def test_openai_python_reads_why(small: tuple[ScriptedHost, str], history: list[dict[str, Any]], stream: bool) -> None:
    """Its exception has the status and the code, though most of the body was still to be sent."""
    host, url = small
    request: Any = {"model": SCRIPTED_MODEL, "input": history, "stream": stream}
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=60) as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.responses.create(**request)
    assert caught.value.status_code == 413
    assert isinstance(caught.value.body, dict)
    check_refusal(caught.value.body)
    assert not host.engine.calls


@pytest.mark.parametrize("said", [True, False], ids=["length said", "length not said"])
def test_httpx_reads_why(small: tuple[ScriptedHost, str], said: bool) -> None:
    """Also when the body comes piece by piece; and the connection serves the next request."""
    host, url = small
    pieces = 60
    headers = JSON | ({"content-length": str(pieces * MEGABYTE)} if said else {})
    with httpx.Client(base_url=url, timeout=60) as client:
        body = (b"x" * MEGABYTE for _ in range(pieces))
        answer = client.post("/v1/responses", content=body, headers=headers)
        assert answer.status_code == 413
        check_refusal(answer.json()["error"])
        assert client.post("/v1/responses", json={"model": SCRIPTED_MODEL, "input": "hi"}).status_code == 200
    assert len(host.engine.calls) == 1


def test_the_refusal_does_not_wait_for_the_rest(small: tuple[ScriptedHost, str]) -> None:
    """A client that listens while it sends hears of it as soon as it has sent too much."""
    _, url = small
    address = urlsplit(url)
    headers = {"host": address.netloc, **JSON, "content-length": str(60 * MEGABYTE)}
    head = "".join(f"{line}\r\n" for line in ["POST /v1/responses HTTP/1.1", *map(": ".join, headers.items()), ""])
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(head.encode() + b"x" * (LIMIT + MEGABYTE))
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
