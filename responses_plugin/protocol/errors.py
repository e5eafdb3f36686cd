"""Errors in OpenAI's shape, and the one exception that carries them."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """The request cannot be answered, in words the client is shown.

    ``param`` is a path into the body (``input[2].content[0].image_url``), ``code`` a short machine-readable reason
    (the names follow OpenAI's), ``status`` the HTTP status to use while there is still one to choose.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        type: str = "invalid_request_error",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status
        self.type = type
        self.headers = headers

    def body(self) -> dict[str, Any]:
        """``{"error": {message, type, param, code}}``, all four keys always present."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def server_error(message: str, *, status: int = 500, code: str = "server_error") -> RequestError:
    """A failure of ours or of the engine, not of the request."""
    return RequestError(message, status=status, code=code, type="server_error")
