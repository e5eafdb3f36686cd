"""What the host says when it refuses or fails, in the words that clients act on."""

from __future__ import annotations

from typing import Any

import pytest

from responses_plugin.protocol.errors import RequestError, server_error
from responses_plugin.protocol.host_errors import engine_error, host_error


@pytest.mark.parametrize(
    ("status", "detail", "expected"),
    [
        (400, "max_tokens exceeds server limit (100)", (400, None, "invalid_request_error", None)),
        (401, "Invalid API key", (401, "invalid_api_key", "invalid_request_error", None)),
        (401, "API key required", (401, "invalid_api_key", "invalid_request_error", None)),
        (403, "no", (403, "permission_denied", "invalid_request_error", None)),
        (404, "The model `x` does not exist. Available: y", (404, "model_not_found", "invalid_request_error", "model")),
        (404, "Request not found", (404, "not_found", "invalid_request_error", None)),
        (413, "too much", (413, None, "invalid_request_error", None)),
        (422, "messages: field required", (400, None, "invalid_request_error", None)),
        (429, "Rate limit exceeded. Retry after 3 seconds.", (429, "rate_limit_exceeded", "rate_limit_error", None)),
        (500, "GenerationError", (500, "server_error", "server_error", None)),
        (502, "bad gateway", (502, "server_error", "server_error", None)),
        (503, "Model not loaded", (503, "service_unavailable", "server_error", None)),
        (
            503,
            {"error": "text_generation_busy", "message": "wait"},
            (503, "server_is_overloaded", "server_error", None),
        ),
        (503, "The engine is already serving a request", (503, "server_is_overloaded", "server_error", None)),
        (504, "Request timed out after 3.0 seconds", (504, "timeout", "server_error", None)),
        (
            500,
            "Prompt exceeds the context window of 4096",
            (400, "context_length_exceeded", "invalid_request_error", "input"),
        ),
        (500, "cannot identify image file <_io.BytesIO>", (400, "invalid_image", "invalid_request_error", "input")),
    ],
)
def test_refusals_of_the_host(status: int, detail: Any, expected: tuple[Any, ...]) -> None:
    """Each becomes the status, code, type and param that clients know; its words are kept."""
    error = host_error(status, detail)
    assert (error.status, error.code, error.type, error.param) == expected
    words = detail["message"] if isinstance(detail, dict) else detail
    assert words in error.message


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens",
        "context_length exceeded",
        "Prompt too long: 9000 tokens",
        "prompt is too large for the context",
        "The prompt exceeds the KV cache",
        "max_position_embeddings is 4096",
        "maximum sequence length is 2048",
    ],
)
@pytest.mark.parametrize("of", [lambda text: host_error(500, text), lambda text: engine_error(ValueError(text))])
def test_a_context_overflow_is_known_by_its_words(message: str, of: Any) -> None:
    """Whoever says it and however: agents compact their history on this code, and retry for ever without it."""
    error = of(message)
    assert (error.status, error.code) == (400, "context_length_exceeded")
    assert error.message == message


@pytest.mark.parametrize(
    "message",
    ["image file is truncated", "Failed to load image 3", "broken PNG file", "unrecognized data stream contents"],
)
def test_an_image_that_cannot_be_used_is_the_requests_fault(message: str) -> None:
    """Of the host or of the engine."""
    for error in (host_error(500, message), engine_error(OSError(message))):
        assert (error.status, error.code) == (400, "invalid_image")
        assert message in error.message


def test_a_long_message_about_an_image_is_cut() -> None:
    """Libraries quote what they could not read, which may be megabytes."""
    assert len(engine_error(ValueError("cannot identify image " + "A" * 10_000)).message) < 400


@pytest.mark.parametrize(
    ("status", "detail"),
    [(429, "Rate limit exceeded."), (503, "Model not loaded"), (503, "busy"), (401, "API key required")],
)
def test_headers_are_passed_on(status: int, detail: str) -> None:
    """Retry-After says when to come back, WWW-Authenticate how."""
    headers = {"Retry-After": "3"}
    assert host_error(status, detail, headers).headers == headers
    assert host_error(status, detail).headers is None


@pytest.mark.parametrize("detail", [None, "", [], [{"loc": ["body"], "msg": "bad"}], {}, {"message": None}, 7])
def test_any_detail_gives_a_message(detail: Any) -> None:
    """The host's detail is whatever its author put there."""
    error = host_error(500, detail)
    assert isinstance(error.message, str)
    assert error.code == "server_error"


def test_the_text_of_an_unknown_engine_error_stays_in_the_log() -> None:
    """It may tell more about the server than a client should know."""
    error = engine_error(RuntimeError("/secret/path"))
    assert (error.status, error.code, error.type) == (500, "server_error", "server_error")
    assert "secret" not in error.message


def test_a_conversation_that_the_template_refuses() -> None:
    """Is the request's fault, in the template's words; agents do not retry it."""
    error = engine_error(type("TemplateError", (Exception,), {})("Only user and assistant roles are supported!"))
    assert (error.status, error.code, error.param) == (400, "invalid_prompt", "input")
    assert "Only user and assistant roles" in error.message


def test_a_busy_engine() -> None:
    """Known by the name of its exception; it can be tried again."""
    error = engine_error(type("EngineBusy", (RuntimeError,), {})("one at a time"))
    assert (error.status, error.code, error.message) == (503, "server_is_overloaded", "one at a time")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("UnsafeRemoteURLError", "invalid_image_url"),
        ("RequestException", "failed_to_download_image"),
        ("FileSizeExceededError", "failed_to_download_image"),
    ],
)
def test_a_remote_image_that_cannot_be_had(name: str, code: str) -> None:
    """By the name of the exception or of one it derives from; an unsafe address is not repeated."""
    base = type(name, (Exception,), {})
    error = engine_error(type("Special", (base,), {})("http://10.0.0.1/x.png"))
    assert (error.status, error.code, error.type) == (400, code, "invalid_request_error")
    assert ("10.0.0.1" in error.message) == (name != "UnsafeRemoteURLError")


def test_the_shape_of_an_error() -> None:
    """All four keys, always."""
    assert RequestError("m").body() == {
        "error": {"message": "m", "type": "invalid_request_error", "param": None, "code": None}
    }
    assert RequestError("m", param="input[0]", code="invalid_value").body()["error"] == {
        "message": "m",
        "type": "invalid_request_error",
        "param": "input[0]",
        "code": "invalid_value",
    }
    assert server_error("m").status == 500
    assert server_error("m").body()["error"]["type"] == "server_error"
    assert str(RequestError("m")) == "m"
