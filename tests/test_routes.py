"""The endpoints: what is served where, and every refusal and failure in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException

from responses_plugin.protocol.dialects import DIALECTS
from responses_plugin.routes import ErrorShapeRoute, endpoints
from tests.fake_host import FakeHost, Reply, new_app, new_service, serving

ERROR_KEYS = {"message", "type", "param", "code"}


def test_what_is_served() -> None:
    """Creating, retrieving and deleting a response, and a refusal to switch protocols; errors in OpenAI's shape."""
    served = endpoints(new_service(FakeHost()))
    assert [(endpoint.method, endpoint.path) for endpoint in served] == [
        ("POST", "/v1/responses"),
        ("GET", "/v1/responses"),
        ("GET", "/v1/responses/{response_id}"),
        ("DELETE", "/v1/responses/{response_id}"),
    ]
    assert all(issubclass(endpoint.route_class, ErrorShapeRoute) for endpoint in served)
    assert all(endpoint.function.__doc__ for endpoint in served)


async def test_one_response_from_beginning_to_end() -> None:
    """Made, read back, deleted, gone."""
    async with serving(FakeHost(Reply("Hello."))) as client:
        made = await client.post("/v1/responses", json={"model": "m", "input": "hi"})
        assert made.headers["content-type"] == "application/json"
        path = f"/v1/responses/{made.json()['id']}"
        assert (await client.get(path)).json() == made.json()
        assert (await client.delete(path)).json()["deleted"] is True
        assert (await client.get(path)).status_code == 404


async def test_one_response_in_another_dialect() -> None:
    """What is made, read back, streamed and refused is all in the dialect that the server was started with."""
    form = {"type": "json_schema", "name": "city", "schema": {"type": "object"}}
    request = {"model": "m", "input": "hi", "text": {"format": form}}
    async with serving(FakeHost(Reply("{}")), dialect=DIALECTS["open-responses"]) as client:
        made = (await client.post("/v1/responses", json=request)).json()
        read = (await client.get(f"/v1/responses/{made['id']}")).json()
        stream = await client.post("/v1/responses", json={**request, "stream": True})
        gone = await client.get("/v1/responses/resp_gone")
        upgrade = await client.get("/v1/responses")
    assert made == read
    assert made["text"]["format"] == {**form, "schema": None, "description": None, "strict": False}
    *events, done = stream.text.removesuffix("\n\n").split("\n\n")
    assert '"schema":null' in events[0]
    assert '"schema":null' in events[-1]
    assert done == "data: [DONE]"
    assert gone.json()["error"]["type"] == "not_found"
    assert upgrade.json()["error"]["type"] == "invalid_request"


async def test_an_upgrade_that_a_server_made_a_get_of() -> None:
    """Is refused in shape, with the status on which clients go on over HTTP at once."""
    async with serving(FakeHost()) as client:
        answer = await client.get("/v1/responses")
    assert answer.status_code == 426
    assert answer.json()["error"].keys() == ERROR_KEYS


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "Application/JSON", " application/vnd.openai+json "],
)
async def test_a_body_that_says_it_is_json(content_type: str) -> None:
    """Is read, in any spelling."""
    async with serving(FakeHost()) as client:
        content = b'{"model": "m", "input": "hi"}'
        answer = await client.post("/v1/responses", content=content, headers={"content-type": content_type})
    assert answer.status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "json", "text/json", None])
async def test_a_body_that_does_not_say_it_is_json(content_type: str | None) -> None:
    """Is refused before it is read: a web page could send it to a local server without being asked."""
    host = FakeHost()
    async with serving(host) as client:
        headers = {"content-type": content_type} if content_type else {}
        answer = await client.post("/v1/responses", content=b'{"model": "m", "input": "hi"}', headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_content_type"
    assert host.calls == []


def app_with(guard: Any) -> FastAPI:
    """An app whose endpoint stands behind a guard, as in the host."""
    app = FastAPI()

    async def endpoint() -> dict[str, bool]:
        return {"ok": True}

    app.router.add_api_route(
        "/guarded", endpoint, dependencies=[Depends(guard)], route_class_override=ErrorShapeRoute, methods=["GET"]
    )
    return app


async def get(app: FastAPI) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.get("/guarded")


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (HTTPException(401, "API key required", {"WWW-Authenticate": "Bearer"}), "invalid_api_key"),
        (
            HTTPException(429, "Rate limit exceeded. Retry after 3 seconds.", {"Retry-After": "3"}),
            "rate_limit_exceeded",
        ),
        (HTTPException(503, {"error": "text_generation_busy", "message": "busy"}), "server_is_overloaded"),
    ],
)
async def test_the_hosts_guards_refuse_in_shape(refusal: HTTPException, code: str) -> None:
    """Never as ``{"detail": …}``, of which clients show nothing; status and headers are the host's."""

    def guard() -> None:
        raise refusal

    answer = await get(app_with(guard))
    assert answer.status_code == refusal.status_code
    assert answer.json().keys() == {"error"}
    assert answer.json()["error"].keys() == ERROR_KEYS
    assert answer.json()["error"]["code"] == code
    for name, value in (refusal.headers or {}).items():
        assert answer.headers[name] == value


async def test_a_failure_is_in_shape_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A bug of ours or of a plugin is a 500 that tells the client nothing, and the log everything."""

    def guard() -> None:
        raise ZeroDivisionError("secret")

    answer = await get(app_with(guard))
    assert answer.status_code == 500
    assert answer.json()["error"].keys() == ERROR_KEYS
    assert answer.json()["error"]["type"] == "server_error"
    assert "secret" not in answer.text
    assert "secret" in caplog.text


async def test_what_is_fine_passes_unchanged() -> None:
    """The route adds nothing to an answer."""
    answer = await get(app_with(lambda: None))
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


async def test_openapi_lists_the_endpoints() -> None:
    """The host's own documentation page shows them."""
    app = new_app(new_service(FakeHost()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        paths = json.loads((await client.get("/openapi.json")).content)["paths"]
    assert paths.keys() == {"/v1/responses", "/v1/responses/{response_id}"}
    assert paths["/v1/responses"].keys() == {"post", "get"}
    assert paths["/v1/responses/{response_id}"].keys() == {"get", "delete"}
