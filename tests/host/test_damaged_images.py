"""Images that turn out to be damaged when the real engines decode them: the client's mistake, named by its place."""

from __future__ import annotations

import base64
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from vllm_mlx import server
from vllm_mlx.engine.batched import BatchedEngine
from vllm_mlx.engine.simple import SimpleEngine

import responses_plugin
from tests import tiny
from tests.host.servers import MODEL_NAME, TINY_VLM
from tests.images import ImageFormat, data_url, image_bytes
from tests.sse import read_stream, terminal_response

#: The host leaves files open that it failed to decode.
pytestmark = [
    pytest.mark.contract,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", params=[SimpleEngine, BatchedEngine], ids=["simple", "batched"])
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    """The host with the tiny model and the plugin, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_engine", request.param(str(TINY_VLM), force_mllm=True))
        patch.setattr(server, "_model_name", MODEL_NAME)
        responses_plugin.enable()
        with TestClient(server.app) as client:
            yield client
        responses_plugin.disable()
    # Those files are collected here, where the warning is expected, and not in some later test.
    gc.collect()


def truncated(image_format: ImageFormat) -> str:
    """A data: URL of an image that ends in the middle of its pixels, its header whole."""
    data = image_bytes("red", image_format, (64, 64))[:-40]
    return f"data:image/{image_format.lower()};base64,{base64.b64encode(data).decode()}"


def body(*images: str, **options: Any) -> dict[str, Any]:
    parts = [{"type": "input_image", "image_url": url} for url in images]
    message = {"role": "user", "content": [{"type": "input_text", "text": tiny.ASK_COLOUR}, *parts]}
    return {"model": MODEL_NAME, "input": [message], "temperature": 0, "max_output_tokens": 32, **options}


@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "GIF"])
def test_a_truncated_image_is_named(client: TestClient, image_format: ImageFormat) -> None:
    """400 invalid_image with the place of the damaged one among good ones; in a stream that code and place.

    The batched engine says no more than that it has failed, so the place shows that the images were looked at.
    """
    images = [data_url("blue"), truncated(image_format)]
    refused = client.post("/v1/responses", json=body(*images))
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_image", "input[0].content[2].image_url")
    assert error["type"] == "invalid_request_error"
    events = read_stream(client.post("/v1/responses", json=body(*images, stream=True)).content)
    failure = terminal_response(events)["error"]
    assert failure["code"] == "invalid_image"
    assert "input[0].content[2].image_url" in failure["message"]


def test_a_damaged_image_of_a_tool_is_named(client: TestClient) -> None:
    """Tools return images as well."""
    items = [
        {"role": "user", "content": tiny.ASK_SCREENSHOT},
        {"type": "function_call", "call_id": "call_1", "name": "screenshot", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [{"type": "input_image", "image_url": truncated("PNG")}],
        },
    ]
    refused = client.post("/v1/responses", json={**body(), "input": items})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_image")
    assert refused.json()["error"]["param"] == "input[2].output[0].image_url"


def test_the_engine_goes_on(client: TestClient) -> None:
    """A damaged image disturbs nobody else, neither before nor after."""
    for stream in (False, True):
        client.post("/v1/responses", json=body(truncated("PNG"), stream=stream))
        answer = client.post("/v1/responses", json=body(data_url("green"))).json()
        assert answer["output"][0]["content"][0]["text"] == tiny.colour_answer("green")


def test_a_failure_that_no_image_explains_stays_one(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Good images are not blamed."""

    async def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(server._engine, "chat", fail)
    failed = client.post("/v1/responses", json=body(data_url("green")))
    assert (failed.status_code, failed.json()["error"]["code"]) == (500, "server_error")
