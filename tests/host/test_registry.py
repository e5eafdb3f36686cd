"""Several models behind one server (``--models-config``), loaded when they are asked for and unloaded when idle.

/v1/responses behaves as /v1/chat/completions does: the host's own manager is at work, with scripted engines here and
with the tiny models at the end.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import vllm_mlx.server as host_server

from responses_plugin.settings import Settings
from tests import tiny
from tests.checkpoints.training.export_text import export_text
from tests.host.lazy import KEY, LoadedEngine, lazy_globals, registry_globals
from tests.host.reading import streaming
from tests.host.scripted import SCRIPTED_MODEL, Gate, Script, ScriptedHost, wait_until, wait_until_async
from tests.host.servers import MODEL_NAME, PARSER_OPTIONS, TINY_OPTIONS, TINY_VLM, HostServer, running_host
from tests.images import data_url
from tests.sse import joined_deltas, read_stream, terminal_response

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON_FORMAT = {"format": {"type": "json_object"}}


def engine(text: str, loading: Gate | None = None, **script: Any) -> LoadedEngine:
    return LoadedEngine([Script([text[:1], text[1:]], **script)], loading)


def active_requests(host_globals: dict[str, Any]) -> dict[str, int]:
    """How many requests hold a lease of each model that is loaded."""
    return {name: loaded.active_requests for name, loaded in host_globals["_model_manager"]._loaded.items()}


async def ask(host: ScriptedHost, model: str, **body: Any) -> str:
    """The text of an answer, streamed and not, which must be the same."""
    plain = (await host.post(model=model, input="hi", **body)).json()
    events = await host.stream(model=model, input="hi", **body)
    assert plain["model"] == terminal_response(events)["model"] == model
    text = plain["output"][0]["content"][0]["text"]
    assert joined_deltas(events) == text
    return str(text)


# --- Several models --------------------------------------------------------------------------------------------------


async def test_the_model_that_was_asked_for_answers() -> None:
    """Each is loaded when it is first asked for, and given back after every request."""
    engines = {"first": engine("one"), "second": engine("two")}
    registry = registry_globals(engines)
    with ScriptedHost(globals=registry) as host:
        assert await ask(host, "second") == "two"
        assert active_requests(registry) == {"second": 0}
        assert await ask(host, "first") == "one"
        assert await ask(host, "second") == "two"
    assert active_requests(registry) == {"first": 0, "second": 0}
    assert [len(model.calls) for model in engines.values()] == [2, 4]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_model_is_told_the_known_ones(stream: bool) -> None:
    """404 model_not_found, JSON also where a stream was asked for, and nothing is loaded."""
    registry = registry_globals({"first": engine("one"), "second": engine("two")})
    with ScriptedHost(globals=registry) as host:
        refused = await host.post(model="third", input="hi", stream=stream)
    assert refused.status_code == 404
    error = refused.json()["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "`first`, `second`" in error["message"]
    assert active_requests(registry) == {}


async def test_a_model_is_given_back_whatever_happens() -> None:
    """After failures, refusals and structured answers as well: a model that is not would never be unloaded."""
    broken = LoadedEngine([Script(["x"], error=RuntimeError("boom"), error_after=1)])
    registry = registry_globals({"broken": broken, "good": engine('{"a": 1}')})
    with ScriptedHost(globals=registry) as host:
        assert (await host.post(model="broken", input="hi")).status_code == 500
        assert (await host.stream(model="broken", input="hi"))[-1].type == "response.failed"
        assert await ask(host, "good", text=JSON_FORMAT) == '{"a": 1}'
        image = {"type": "input_image", "image_url": data_url("red")}
        broken._mllm = False
        refused = await host.post(model="broken", input=[{"role": "user", "content": [image]}])
        assert refused.status_code == 400
    assert active_requests(registry) == {"broken": 0, "good": 0}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_gives_its_model_back(stream: bool) -> None:
    """Under a real server; the lease is the host's, and found by our view of the request."""
    gate = Gate()
    held = LoadedEngine([Script(["Hel", "lo"], gates={1: gate}), Script(["Fine."])])
    registry = registry_globals({"held": held})
    with ScriptedHost(globals=registry) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url) as client:
            body = {"model": "held", "input": "hi", "stream": stream}
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/v1/responses", json=body, timeout=1)
            assert gate.reached.is_set()
            await wait_until_async(lambda: active_requests(registry) == {"held": 0}, "the model to be given back", 3)
            answer = await client.post("/v1/responses", json={**body, "stream": False})
    assert held.calls[0].aborted
    assert answer.json()["output"][0]["content"][0]["text"] == "Fine."
    assert active_requests(registry) == {"held": 0}


async def test_a_model_without_room_is_refused_while_others_work() -> None:
    """503 while the memory is taken by a model in use, which is not disturbed; afterwards it makes room."""
    gate = Gate()
    first, second = engine("one", gates={1: gate}), engine("two")
    registry = registry_globals({"first": first, "second": second}, room_for=1)
    with ScriptedHost(globals=registry) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url) as client, streaming(url, model="first") as stream:
            await stream.until("response.output_text.delta")
            for streamed in (False, True):
                body = {"model": "second", "input": "hi", "stream": streamed}
                refused = await client.post("/v1/responses", json=body)
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "service_unavailable")
                assert "memory budget" in refused.json()["error"]["message"]
            gate.open()
            assert joined_deltas(await stream.rest()) == "one"
            answer = await client.post("/v1/responses", json={"model": "second", "input": "hi"})
    assert answer.json()["output"][0]["content"][0]["text"] == "two"
    assert (first.stopped, second.stopped) == (True, False)


async def test_a_stream_begins_while_its_model_is_loading() -> None:
    """Created first and kept alive, then the answer."""
    loading = Gate()
    registry = registry_globals({"slow": engine("one", loading)})
    with ScriptedHost(globals=registry, options=Settings(keepalive_seconds=0.1)) as host, host.serving() as url:
        async with streaming(url, model="slow") as stream:
            await stream.until("keepalive")
            assert stream.types[:2] == ["response.created", "response.in_progress"]
            loading.open()
            events = await stream.rest()
    assert joined_deltas(events) == "one"
    assert active_requests(registry) == {"slow": 0}


async def test_a_model_that_fails_to_load_is_an_error() -> None:
    """In a status while there is one to choose, and the next attempt loads anew."""

    class Broken(LoadedEngine):
        async def start(self) -> None:
            self.calls.clear()
            raise ValueError("weights are missing")

    registry = registry_globals({"broken": Broken([Script(["never"])])})
    with ScriptedHost(globals=registry) as host:
        for stream in (False, True):
            refused = await host.post(model="broken", input="hi", stream=stream)
            assert refused.status_code == 500
            assert refused.json()["error"]["code"] == "server_error"


@dataclass
class Waiting:
    """Counts the requests that wait for a model, and those that gave up."""

    begun: int = 0
    given_up: int = 0

    def globals(self) -> dict[str, Any]:
        acquire = host_server._acquire_request_model

        async def counted(model: str) -> Any:
            self.begun += 1
            try:
                return await acquire(model)
            except asyncio.CancelledError:
                self.given_up += 1
                raise

        return {"_acquire_request_model": counted}


@pytest.mark.parametrize("leaver", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
async def test_a_client_that_leaves_does_not_stop_a_load(path: str, leaver: int) -> None:
    """Neither the one whose request has begun it nor one that waits for it; and no lease is left over."""
    loading, waiting = Gate(), Waiting()
    registry = registry_globals({"slow": engine("one", loading)})
    body = {"model": "slow", "input": "hi", "messages": [{"role": "user", "content": "hi"}]}
    with ScriptedHost(globals={**registry, **waiting.globals()}) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            requests = []
            for number in range(1, 4):
                requests.append(asyncio.ensure_future(client.post(path, json=body)))
                await wait_until_async(lambda number=number: waiting.begun == number, "the request to wait")
            await wait_until_async(loading.reached.is_set, "the model to be loading")
            requests.pop(leaver).cancel()
            await wait_until_async(lambda: waiting.given_up == 1, "the host to notice", 3)
            loading.open()
            answers = await asyncio.gather(*requests)
            later = await client.post(path, json=body)
    assert [answer.status_code for answer in (*answers, later)] == [200, 200, 200]
    assert active_requests(registry) == {"slow": 0}


async def test_a_load_that_nobody_waits_for_is_not_lost() -> None:
    """The only client leaves, and the next one finds the model."""
    loading, waiting = Gate(), Waiting()
    registry = registry_globals({"slow": engine("one", loading)})
    with ScriptedHost(globals={**registry, **waiting.globals()}) as host, host.serving() as url:
        async with streaming(url, model="slow") as stream:
            await stream.until("response.created")
        await wait_until_async(lambda: waiting.given_up == 1, "the host to notice", 3)
        loading.open()
        await wait_until_async(lambda: active_requests(registry) == {"slow": 0}, "the lease to be given back", 3)
        async with streaming(url, model="slow") as stream:
            assert joined_deltas(await stream.rest()) == "one"
    assert active_requests(registry) == {"slow": 0}


async def test_this_host_needs_the_patch() -> None:
    """Left alone, it has the model loading for ever. Once this test fails, the patch can go."""
    loading = Gate()
    registry = registry_globals({"slow": engine("one", loading)})
    manager = registry["_model_manager"]
    acquiring = asyncio.ensure_future(manager.acquire("slow"))
    await wait_until_async(loading.reached.is_set, "the model to be loading")
    acquiring.cancel()
    loading.open()
    await asyncio.wait([acquiring])
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(manager.acquire("slow"), 0.2)


# --- Unloading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_in_use_is_not_idle(stream: bool) -> None:
    """However long the answer takes; then it is idle, is unloaded, and loaded again for the next request."""
    gate = Gate()
    first, second = engine("Hi", gates={1: gate}), engine("Again")
    lazy = lazy_globals([first, second], idle_seconds=0.1)
    residency = lazy["_residency_manager"]
    with ScriptedHost(globals=lazy) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            body = {"model": SCRIPTED_MODEL, "input": "hi", "stream": stream}
            request = asyncio.ensure_future(client.post("/v1/responses", json=body))
            await wait_until_async(gate.reached.is_set, "the engine to generate")
            used_at = residency.get_status(KEY)["last_used_at"]
            await wait_until_async(lambda: time.time() - used_at > 0.2, "the time to be up")
            assert await residency.unload_if_idle(KEY) is False
            gate.open()
            assert (await request).status_code == 200
            await wait_until_async(lambda: residency.get_status(KEY)["active_requests"] == 0, "the end of the request")
            used_at = residency.get_status(KEY)["last_used_at"]
            await wait_until_async(lambda: time.time() - used_at > 0.1, "the time to be up")
            assert await residency.unload_if_idle(KEY) is True
            assert first.stopped
            answer = await client.post("/v1/responses", json={**body, "stream": False})
    assert answer.json()["output"][0]["content"][0]["text"] == "Again"


async def test_a_registered_model_in_use_is_not_idle() -> None:
    """The same for a model of the registry, whose idle ones are looked for all together."""
    gate = Gate()
    registry = registry_globals({"one": engine("Hi", gates={1: gate})}, idle_seconds=0.05)
    manager = registry["_model_manager"]
    with ScriptedHost(globals=registry) as host:
        request = asyncio.ensure_future(host.stream(model="one", input="hi"))
        await wait_until_async(gate.reached.is_set, "the engine to generate")
        await wait_until_async(lambda: time.time() - manager._loaded["one"].last_used_at > 0.1, "the time to be up")
        assert await manager.unload_idle() == []
        gate.open()
        assert (await request)[-1].type == "response.completed"
        await wait_until_async(lambda: time.time() - manager._loaded["one"].last_used_at > 0.1, "the time to be up")
        assert await manager.unload_idle() == ["one"]
        assert joined_deltas(await host.stream(model="one", input="hi")) == "Hi"


# --- The tiny models -------------------------------------------------------------------------------------------------

#: Long enough for a request to find the model that the request before it has loaded, on a slow machine as well.
IDLE_SECONDS = "2"


@pytest.fixture(scope="module")
def registry_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The real host with the model that sees and the one that reads only."""
    directory = tmp_path_factory.mktemp("registry")
    export_text(TINY_VLM, directory / "words")
    models = [
        {"name": "eyes", "path": str(TINY_VLM), "mllm": True},
        {"name": "words", "path": str(directory / "words"), "continuous_batching": True},
    ]
    config = directory / "models.yaml"
    # YAML can be JSON.
    config.write_text(json.dumps({"manager": {"memory_budget_gb": 4}, "models": models}))
    options = ["--models-config", str(config), "--auto-unload-idle-seconds", IDLE_SECONDS, *PARSER_OPTIONS]
    with running_host(options, directory / "host.log") as server:
        yield server


@pytest.fixture(scope="module")
def lazy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The real host with one model, which it loads on the first request."""
    log_path = tmp_path_factory.mktemp("lazy") / "host.log"
    options = [*TINY_OPTIONS, "--lazy-load-model", "--auto-unload-idle-seconds", IDLE_SECONDS]
    with running_host(options, log_path) as server:
        yield server


def answer(server: HostServer, model: str, *, stream: bool, **body: Any) -> str:
    """The text of an answer of a real model."""
    request = {"model": model, "temperature": 0, "max_output_tokens": 60, "stream": stream, **body}
    response = httpx.post(f"{server.api_url}/responses", json=request, timeout=60)
    assert response.status_code == 200, response.text
    answered = terminal_response(read_stream(response.content)) if stream else response.json()
    assert (answered["model"], answered["status"]) == (model, "completed")
    (message,) = answered["output"]
    return str(message["content"][0]["text"])


def question(colour: str) -> list[dict[str, Any]]:
    image = {"type": "input_image", "image_url": data_url(colour)}
    return [{"role": "user", "content": [{"type": "input_text", "text": tiny.ASK_COLOUR}, image]}]


def loaded_models(server: HostServer) -> set[str]:
    """What the registry of a server has in memory."""
    models = httpx.get(f"{server.api_url}/status").json()["model_manager"]["models"]
    return {model["id"] for model in models if model["status"] != "unloaded"}


@pytest.mark.parametrize("stream", [False, True])
def test_the_right_tiny_model_answers(registry_server: HostServer, stream: bool) -> None:
    """The one that sees names the colour, the one that does not refuses the image; a model that is not there is a 404."""
    for colour in ("red", "blue"):
        assert answer(registry_server, "eyes", stream=stream, input=question(colour)) == tiny.colour_answer(colour)
        assert answer(registry_server, "words", stream=stream, input="hello") == tiny.GREETING
    blind = {"model": "words", "input": question("red"), "stream": stream}
    refused = httpx.post(f"{registry_server.api_url}/responses", json=blind, timeout=60)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unsupported_content_type")
    unknown = httpx.post(f"{registry_server.api_url}/responses", json={**blind, "model": "ears"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("stream", [False, True])
def test_idle_tiny_models_are_unloaded_and_come_back(registry_server: HostServer, stream: bool) -> None:
    """No lease of ours keeps them in memory, and the next request loads them again."""
    answer(registry_server, "words", stream=stream, input="hello")
    wait_until(lambda: not loaded_models(registry_server), "the models to be unloaded", 30)
    assert answer(registry_server, "words", stream=stream, input="hello") == tiny.GREETING
    assert "words" in loaded_models(registry_server)


@pytest.mark.parametrize("stream", [False, True])
def test_a_lazy_tiny_model_is_loaded_unloaded_and_comes_back(lazy_server: HostServer, stream: bool) -> None:
    """The first request finds no model and is answered; so is the first after it was unloaded."""

    def is_loaded() -> bool:
        return bool(httpx.get(f"{lazy_server.url}/health").json()["model_loaded"])

    for colour in ("green", "yellow"):
        wait_until(lambda: not is_loaded(), "the model to be unloaded", 30)
        assert answer(lazy_server, MODEL_NAME, stream=stream, input=question(colour)) == tiny.colour_answer(colour)
        assert is_loaded()
