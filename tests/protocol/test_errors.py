"""Errors have one shape, the one that clients of OpenAI's API read."""

from __future__ import annotations

import pytest

from responses_plugin.protocol.errors import RequestError, server_error


@pytest.mark.parametrize(
    ("error", "status", "body"),
    [
        (
            RequestError("No.", param="input[0]", code="invalid_value"),
            400,
            {"message": "No.", "type": "invalid_request_error", "param": "input[0]", "code": "invalid_value"},
        ),
        (RequestError("No."), 400, {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}),
        (server_error("Oh."), 500, {"message": "Oh.", "type": "server_error", "param": None, "code": "server_error"}),
        (
            server_error("Later.", status=503, code="server_is_overloaded"),
            503,
            {"message": "Later.", "type": "server_error", "param": None, "code": "server_is_overloaded"},
        ),
    ],
)
def test_all_four_keys_are_always_there(error: RequestError, status: int, body: dict[str, str | None]) -> None:
    """What is not known is null: strict clients miss a key that is absent."""
    assert error.status == status
    assert error.body() == {"error": body}


def test_an_error_says_its_message() -> None:
    """Also in a traceback and in the log."""
    assert str(RequestError("No.")) == "No."
