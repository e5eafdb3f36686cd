"""What keeps a request away from the engine: keys, limits, names and bodies; refused in OpenAI's shape, always.

The chat endpoint refuses the same with the same status and words. A server that is really started with the flags for
it stands in ``test_server_options``.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
import vllm_mlx.server as host_server

from tests.host.both_paths import CHAT, RESPONSES, body_for, error_of, model_of, on_both_paths, refused_alike
from tests.host.scripted import SCRIPTED_MODEL, Script, ScriptedHost

pytestmark = pytest.mark.contract

KEY = "sk-right"
BODY = {"model": SCRIPTED_MODEL, "input": "hi"}

#: Every endpoint of ours, with ids filled in.
Endpoint = tuple[str, str]


def our_endpoints() -> list[Endpoint]:
    """Method and path of all routes that the plugin serves under ``/v1/responses``."""
    with ScriptedHost() as host:
        routes = [route for route in host.app.routes if getattr(route, "path", "").startswith("/v1/responses")]
    return [
        (method, route.path.replace("{response_id}", "resp_1"))
        for route in routes
        for method in getattr(route, "methods", ())
    ]


def status_without_a_key(endpoint: Endpoint) -> int:
    """What a host without a key answers: a response, no such response, no WebSocket."""
    method, path = endpoint
    return 200 if method == "POST" else 404 if path.endswith("resp_1") else 426


@pytest.fixture(params=our_endpoints(), ids=" ".join)
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    endpoint: Endpoint = request.param
    return endpoint


async def send(host: ScriptedHost, endpoint: Endpoint, **headers: str | bytes) -> httpx.Response:
    """One request without the host's own key."""
    method, path = endpoint
    transport = httpx.ASGITransport(host.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as stranger:
        return await stranger.request(method, path, json=BODY if method == "POST" else None, headers=headers)


async def ask_both(host: ScriptedHost, **fields: Any) -> tuple[httpx.Response, httpx.Response]:
    """The answers of ours and of the chat endpoint to the same request, with the host's own key if it has one."""
    return await host.post(RESPONSES, **body_for(RESPONSES, **fields)), await host.post(
        CHAT, **body_for(CHAT, **fields)
    )


# --- Keys ------------------------------------------------------------------------------------------------------------


#: What is not the right key: missing, empty, wrong or misplaced.
NOT_THE_KEY = [None, "", "Bearer", "Bearer sk-wrong", "Basic c2stcmlnaHQ=", KEY]


@pytest.mark.parametrize("authorization", [*NOT_THE_KEY, "Bearer schlüssel".encode("latin-1")])
async def test_without_the_right_key_nothing_is_served(endpoint: Endpoint, authorization: str | bytes | None) -> None:
    """A missing, empty, wrong, misplaced or unreadable key is a 401 with a code, and the engine is not asked."""
    headers = {} if authorization is None else {"authorization": authorization}
    with ScriptedHost(api_key=KEY) as host:
        response = await send(host, endpoint, **headers)
        assert not host.engine.calls
    assert response.status_code == 401
    error = error_of(response)
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("authorization", NOT_THE_KEY)
async def test_the_chat_endpoint_wants_the_same_key(authorization: str | None, stream: bool) -> None:
    """It refuses what we refuse, in the same words; but a key that is not ASCII is a failure there."""
    headers = {} if authorization is None else {"authorization": authorization}
    with ScriptedHost(api_key=KEY) as host:
        transport = httpx.ASGITransport(host.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://host", headers=headers) as stranger:
            ours, chat = [
                await stranger.post(path, json=body_for(path, model=SCRIPTED_MODEL, stream=stream))
                for path in (RESPONSES, CHAT)
            ]
        let_in = await ask_both(host)
    assert refused_alike(ours, chat)["code"] == "invalid_api_key"
    assert ours.status_code == 401
    assert [answer.status_code for answer in let_in] == [200, 200]


async def test_the_right_key_is_let_in(endpoint: Endpoint) -> None:
    """With the key every endpoint answers as if there were none."""
    with ScriptedHost(api_key=KEY) as host:
        response = await send(host, endpoint, authorization=f"Bearer {KEY}")
    assert response.status_code == status_without_a_key(endpoint)


async def test_a_host_without_a_key_takes_any(endpoint: Endpoint) -> None:
    """Clients that must send a key send a made-up one."""
    with ScriptedHost() as host:
        for made_up in ("Bearer unused", "Bearer ünused".encode("latin-1")):
            response = await send(host, endpoint, authorization=made_up)
            assert response.status_code == status_without_a_key(endpoint)


async def test_the_key_comes_before_the_body() -> None:
    """A stranger does not learn what is wrong with a body."""
    with ScriptedHost(api_key=KEY) as host:
        transport = httpx.ASGITransport(host.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as stranger:
            response = await stranger.post("/v1/responses", content=b"not JSON")
    assert response.status_code == 401


# --- Limits ----------------------------------------------------------------------------------------------------------


async def test_too_many_requests_are_told_to_wait(endpoint: Endpoint) -> None:
    """Beyond the limit every endpoint says 429, and when to come back: Codex retries only if it is told when."""
    limiter = host_server.RateLimiter(requests_per_minute=1, enabled=True)
    with ScriptedHost(globals={"_rate_limiter": limiter}) as host:
        first, second = await send(host, endpoint), await send(host, endpoint)
        assert len(host.engine.calls) == (endpoint[0] == "POST")
    assert first.status_code != 429
    assert second.status_code == 429
    error = error_of(second)
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert 1 <= int(second.headers["retry-after"]) <= 60


@on_both_paths
@pytest.mark.parametrize("stream", [False, True])
async def test_the_limit_counts_all_endpoints_together(path: str, stream: bool) -> None:
    """A client cannot pass the limit of one endpoint by going to the other, and is told the same by both."""
    limiter = host_server.RateLimiter(requests_per_minute=1, enabled=True)
    with ScriptedHost(globals={"_rate_limiter": limiter}) as host:
        assert (await host.post(path, **body_for(path, stream=stream))).status_code == 200
        ours, chat = await ask_both(host, stream=stream)
    assert refused_alike(ours, chat)["code"] == "rate_limit_exceeded"
    assert abs(int(ours.headers["retry-after"]) - int(chat.headers["retry-after"])) <= 1


# --- Models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_model_is_named(stream: bool) -> None:
    """404 model_not_found, JSON also where a stream was asked for: Codex gives up at once on it."""
    with ScriptedHost() as host:
        ours, chat = await ask_both(host, model="gpt-none", stream=stream)
        assert not host.engine.calls
    assert ours.status_code == 404
    error = refused_alike(ours, chat)
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "model_not_found", "model")
    assert "gpt-none" in error["message"]
    assert SCRIPTED_MODEL in error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_served_name_is_the_name(stream: bool) -> None:
    """``--served-model-name`` hides the model's path, and only that name is known, as on the chat endpoint."""
    with ScriptedHost(globals={"_model_name": "house-model", "_model_path": "/models/secret"}) as host:
        answers = await ask_both(host, model="house-model", stream=stream)
        ours, chat = await ask_both(host, model="/models/secret", stream=stream)
    assert [model_of(answer) for answer in answers] == ["house-model", "house-model"]
    assert not any("/models" in answer.text for answer in answers)
    assert refused_alike(ours, chat)["code"] == "model_not_found"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_host_without_a_model_says_so(stream: bool) -> None:
    """503 while nothing is loaded, JSON also where a stream was asked for."""
    with ScriptedHost(globals={"_engine": None}) as host:
        ours, chat = await ask_both(host, stream=stream)
    assert ours.status_code == 503
    error = refused_alike(ours, chat)
    assert (error["type"], error["code"]) == ("server_error", "service_unavailable")


# --- Bodies ----------------------------------------------------------------------------------------------------------

GOOD = json.dumps(BODY).encode()
JSON = "application/json"


async def post_bytes(body: bytes, content_type: str | None) -> tuple[httpx.Response, httpx.Response]:
    """The answers of ours and of the chat endpoint to these bytes; neither may get as far as the engine."""
    headers = {} if content_type is None else {"content-type": content_type}
    with ScriptedHost() as host:
        async with host.client() as client:
            ours = await client.post(RESPONSES, content=body, headers=headers)
            chat = await client.post(CHAT, content=body, headers=headers)
        assert not host.engine.calls
    return ours, chat


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"hello", "invalid_json"),
        (b"\xff\xfe{}", "invalid_json"),
        (b'{"model": "m", "input": NaN}', "invalid_json"),
        (b"[" * 5000, "invalid_json"),
        (b"null", "invalid_type"),
        (b"[]", "invalid_type"),
        (b'"hello"', "invalid_type"),
        (b"{}", "missing_required_parameter"),
    ],
)
async def test_a_body_that_is_no_request_is_refused(body: bytes, code: str) -> None:
    """400, which clients do not retry."""
    response, _ = await post_bytes(body, JSON)
    assert response.status_code == 400
    assert error_of(response)["code"] == code


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data; boundary=x",
        "text/json",
        "json",
        "",
        None,
    ],
)
async def test_a_body_must_say_that_it_is_json(content_type: str | None) -> None:
    """Otherwise it is refused even if it is JSON, as on the chat endpoint: a web page may send such a body to any
    address without asking, and so could have a local model work for it.
    """
    response, chat = await post_bytes(GOOD, content_type)
    assert response.status_code == 400
    assert error_of(response)["code"] == "invalid_content_type"
    assert chat.status_code == 422


@pytest.mark.parametrize("content_type", [JSON, "Application/JSON; charset=utf-8", "application/vnd.client+json"])
async def test_json_by_any_of_its_names_is_taken(content_type: str) -> None:
    """Parameters, case and vendors' names of the content type do not matter."""
    with ScriptedHost(Script(["ok"])) as host:
        async with host.client() as client:
            response = await client.post("/v1/responses", content=GOOD, headers={"content-type": content_type})
    assert response.status_code == 200


async def test_a_large_body_is_refused_the_same() -> None:
    """Also where it is parsed in a thread."""
    with ScriptedHost() as host:
        async with host.client() as client:
            headers = {"content-type": JSON}
            cut = await client.post("/v1/responses", content=b'{"input": "' + b"x" * 300_000, headers=headers)
            bare = await client.post("/v1/responses", content=b'"' + b"x" * 300_000 + b'"', headers=headers)
    assert (cut.status_code, error_of(cut)["code"]) == (400, "invalid_json")
    assert (bare.status_code, error_of(bare)["code"]) == (400, "invalid_type")
