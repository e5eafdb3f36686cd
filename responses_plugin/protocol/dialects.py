"""Dialects: OpenAI's specification and the Open Responses one contradict each other, and a server has to choose.

Inside, everything is in OpenAI's dialect, which the clients of its API are strict about. What leaves the server is
put into the chosen one: by :meth:`Dialect.response`, :meth:`Dialect.event` and :meth:`Dialect.error`.
"""

from __future__ import annotations

from typing import Final

from responses_plugin.protocol.response import Wire


class Dialect:
    """OpenAI's: everything as it is."""

    name: str = "openai"
    #: Written behind the last event of a stream.
    stream_end: bytes = b""
    #: Whether the sign of life in a silent stream is an event, which some clients wait for, or a comment.
    keepalive_is_event: bool = True

    def response(self, response: Wire) -> Wire:
        """A response object, as it is sent."""
        return response

    def event(self, event: Wire) -> Wire:
        """A stream event, as it is sent."""
        return event

    def error(self, body: Wire, status: int) -> Wire:
        """The body of a refusal with this HTTP status, as it is sent."""
        return body


class OpenResponsesDialect(Dialect):
    """That of openresponses.org, as of its version 2026-04-24.

    A request that keeps to that specification gets an answer that does. What it has no word for, such as custom
    tools, is sent as OpenAI does.
    """

    name = "open-responses"
    stream_end = b"data: [DONE]\n\n"
    keepalive_is_event = False

    def response(self, response: Wire) -> Wire:
        form = response["text"]["format"]
        if form["type"] != "json_schema":
            return response
        # The published schema allows nothing but null where the schema of the answer would be echoed.
        echoed = {**form, "description": form.get("description"), "schema": None, "strict": bool(form.get("strict"))}
        return {**response, "text": {**response["text"], "format": echoed}}

    def event(self, event: Wire) -> Wire:
        if event["type"] in _EVENT_TYPES:
            return {**event, "type": _EVENT_TYPES[event["type"]]}
        if "response" in event:
            return {**event, "response": self.response(event["response"])}
        return event

    def error(self, body: Wire, status: int) -> Wire:
        error_type = _ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request")
        return {"error": {**body["error"], "type": error_type}}


_EVENT_TYPES = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
}
_ERROR_TYPES = {404: "not_found", 429: "too_many_requests"}

OPENAI: Final = Dialect()
#: All of them, by name; the first is the default.
DIALECTS: Final = {dialect.name: dialect for dialect in (OPENAI, OpenResponsesDialect())}
