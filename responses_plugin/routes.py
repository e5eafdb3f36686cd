"""The endpoints, ready to be put into the host's app."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Request, Response, WebSocket
from fastapi.routing import APIRoute

from responses_plugin.protocol.dialects import OPENAI
from responses_plugin.protocol.errors import RequestError, server_error
from responses_plugin.protocol.host_errors import host_error
from responses_plugin.responses import JsonResponse, error_response
from responses_plugin.service import ResponsesService

logger = logging.getLogger(__name__)


class ErrorShapeRoute(APIRoute):
    """A route whose every refusal is in OpenAI's shape, also those of the host's own guards, and every failure."""

    dialect = OPENAI

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()

        async def handle_in_shape(request: Request) -> Response:
            try:
                response: Response = await handle(request)
            except RequestError as error:
                return error_response(error, self.dialect)
            except HTTPException as error:
                return error_response(host_error(error.status_code, error.detail, error.headers), self.dialect)
            except Exception:
                logger.exception("%s %s failed", request.method, request.url.path)
                return error_response(server_error("The server failed; its log has the details."), self.dialect)
            return response

        return handle_in_shape


@dataclass(frozen=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    function: Callable[..., Any]
    route_class: type[APIRoute]


def endpoints(service: ResponsesService) -> Sequence[Endpoint]:
    """Everything under ``/v1/responses``."""

    async def create_response(raw_request: Request) -> Response:
        """Create a response, streamed or not."""
        _require_json(raw_request)
        return await service.create(raw_request)

    async def retrieve_response(response_id: str) -> Response:
        """Return a stored response."""
        return JsonResponse(service.retrieve(response_id))

    async def delete_response(response_id: str) -> Response:
        """Forget a stored response."""
        return JsonResponse(service.delete(response_id))

    async def refuse_upgrade() -> Response:
        """What is left of an upgrade where the server knows nothing of WebSocket."""
        return error_response(_NO_WEBSOCKET, service.dialect)

    class Route(ErrorShapeRoute):
        dialect = service.dialect

    return [
        Endpoint("POST", "/v1/responses", create_response, Route),
        Endpoint("GET", "/v1/responses", refuse_upgrade, Route),
        Endpoint("GET", "/v1/responses/{response_id}", retrieve_response, Route),
        Endpoint("DELETE", "/v1/responses/{response_id}", delete_response, Route),
    ]


async def refuse_websocket(websocket: WebSocket) -> None:
    """Answer an upgrade with 426: clients that try WebSocket first go on over HTTP at once."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(error_response(_NO_WEBSOCKET))
    else:
        await websocket.close()


_NO_WEBSOCKET = RequestError(
    "Responses are not served over WebSocket: use POST /v1/responses, with 'stream': true for events.",
    code="websocket_not_supported",
    status=426,
)


def _require_json(request: Request) -> None:
    """Refuse a body that does not say it is JSON, as the host's other endpoints do.

    A web page may send other types to any address without asking, and so could have a local model work for it.
    """
    content_type, _, _ = request.headers.get("content-type", "").partition(";")
    main_type, _, subtype = content_type.strip().lower().partition("/")
    if main_type != "application" or not (subtype == "json" or subtype.endswith("+json")):
        raise RequestError(
            "The request body must be sent as JSON, with the header 'Content-Type: application/json'.",
            code="invalid_content_type",
        )
