"""What the host says when it refuses or fails, in OpenAI's words.

Clients act on ``code``: Codex compacts its history on ``context_length_exceeded``, gives up on ``model_not_found``
and retries on ``server_is_overloaded``. So the code must be right even where the host has only a sentence to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from responses_plugin.protocol.errors import RequestError

_CONTEXT_OVERFLOW = re.compile(
    r"context[ _](length|window|size)|maximum (context|sequence|model) length|max_(model_len|position|kv)"
    r"|prompt (is )?too (long|large)|exceeds? .{0,40}(context|kv cache)",
    re.IGNORECASE,
)
_BAD_IMAGE = re.compile(
    r"cannot identify image|image file is truncated|(failed|unable|could not|cannot) .{0,30}image"
    r"|image .{0,20}exceeds|broken (data stream|PNG)|unrecognized data stream",
    re.IGNORECASE,
)
_BUSY = re.compile(r"busy|overloaded|already serving", re.IGNORECASE)
#: The host's name for an answer that is not the JSON that was asked for.
_UNFIT = "invalid_response_format_output"
_CODE = re.compile(r"[a-z][a-z0-9_]*")
#: Names of the exceptions that a download ends with, those of the library that the host uses among them.
_DOWNLOAD_ERRORS = {"RequestException", "FileSizeExceededError"}
_UNNAMED = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "service_unavailable"),
    504: ("server_error", "timeout"),
}


def host_error(status: int, detail: Any, headers: Mapping[str, str] | None = None) -> RequestError:
    """The error for an HTTP status and detail that the host chose; its headers say when to try again, for one."""
    message = _message(detail)
    kept = dict(headers) if headers else None
    if _named(detail) == _UNFIT:
        return unfit_answer(message)
    if problem := _known_problem(message):
        return problem
    if status == 404 and "model" in message.lower():
        return RequestError(message, param="model", code="model_not_found", status=404)
    if status == 503 and _BUSY.search(f"{message} {detail}"):
        return RequestError(message, code="server_is_overloaded", status=503, type="server_error", headers=kept)
    type_, code = _UNNAMED.get(
        status, ("invalid_request_error", None) if status < 500 else ("server_error", "server_error")
    )
    # What the host cannot process is a bad request; clients retry a 422 in vain.
    status = 400 if status == 422 else status
    return RequestError(message, code=_named(detail) or code, status=status, type=type_, headers=kept)


def unfit_answer(problem: str) -> RequestError:
    """The error for an answer that is not the JSON that was asked for. It is the model's mistake, not the client's."""
    return RequestError(
        f"The model's answer does not fit text.format: {problem}. Try again, or make the schema simpler.",
        code="invalid_structured_output",
        status=500,
        type="server_error",
    )


def forbidden_call(name: str) -> RequestError:
    """The error for a call that ``tool_choice`` rules out. It is the model's mistake, not the client's."""
    return RequestError(
        f"The model called '{name}', which 'tool_choice' does not allow. Try again, or allow it.",
        code="tool_call_not_allowed",
        status=500,
        type="server_error",
    )


def engine_error(error: BaseException) -> RequestError:
    """The error for an exception that the engine raised.

    Unless it is a known kind its text stays in the log: it may tell more about the server than a client should know.
    """
    text = str(error)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "UnsafeRemoteURLError" in kinds:
        return RequestError(
            "A remote image cannot be used: its URL does not lead to a public address. Send it as a data: URL.",
            param="input",
            code="invalid_image_url",
        )
    if "TemplateError" in kinds:
        return RequestError(
            f"The chat template of this model refuses the conversation: {text[:300]}",
            param="input",
            code="invalid_prompt",
        )
    if kinds & _DOWNLOAD_ERRORS:
        return RequestError(
            f"A remote image could not be downloaded: {text[:300]}", param="input", code="failed_to_download_image"
        )
    if problem := _known_problem(text):
        return problem
    if _BUSY.search(type(error).__name__):
        return RequestError(text, code="server_is_overloaded", status=503, type="server_error")
    return RequestError(
        "The engine failed while it was generating; the server log has the details.",
        code="server_error",
        status=500,
        type="server_error",
    )


def _known_problem(message: str) -> RequestError | None:
    if _CONTEXT_OVERFLOW.search(message):
        return RequestError(message, param="input", code="context_length_exceeded")
    if _BAD_IMAGE.search(message):
        return RequestError(
            f"An image of this request cannot be used: {message[:300]}", param="input", code="invalid_image"
        )
    return None


def _message(detail: Any) -> str:
    if isinstance(detail, Mapping):
        return str(detail.get("message") or detail.get("error") or detail)
    return str(detail)


def _named(detail: Any) -> str | None:
    """The host's own code for what went wrong, where it has one."""
    code = detail.get("error") if isinstance(detail, Mapping) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None
