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
from tests.host.both_paths import (
    CHAT,
    RESPONSES,
    body_for,
    error_of,
    model_of,
    on_both_paths,
    refused_alike,
    text_of,
)
from tests.host.lazy import KEY, LoadedEngine, lazy_globals, registry_globals
from tests.host.reading import streaming
from tests.host.scripted import SCRIPTED_MODEL, Gate, Script, ScriptedHost, wait_until, wait_until_async
from tests.host.servers import MODEL_NAME, PARSER_OPTIONS, TINY_OPTIONS, TINY_VLM, HostServer, running_host
from tests.images import data_url
from tests.sse import joined_deltas, read_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.contract
#: 0.3.0 refuses every answer of a registered model, on its own endpoints too: it puts no model's name into it.
registered = pytest.mark.since("0.4.0")
#: Before 0.5.0 registered models stay in memory until another needs the room.
idle_registered = pytest.mark.since("0.5.0")

JSON_FORMAT = {"format": {"type": "json_object"}}


def engine(text: str, loading: Gate | None = None, **script: Any) -> LoadedEngine:
    return LoadedEngine([Script([text[:1], text[1:]], **script)], loading)


def active_requests(host_globals: dict[str, Any]) -> dict[str, int]:
    """How many requests hold a lease of each model that is loaded."""
    return {name: loaded.active_requests for name, loaded in host_globals["_model_manager"]._loaded.items()}


async def ask(host: ScriptedHost, path: str, model: str, **body: Any) -> str:
    """The text of an answer, streamed and not, which must be the same."""
    plain, streamed = [
        await host.post(path, **body_for(path, model=model, stream=stream, **body)) for stream in (False, True)
    ]
    assert model_of(plain) == model_of(streamed) == model
    assert text_of(plain) == text_of(streamed)
    return text_of(plain)


# --- Several models --------------------------------------------------------------------------------------------------


@registered
@on_both_paths
async def test_the_model_that_was_asked_for_answers(path: str) -> None:
    """Each is loaded when it is first asked for, and given back after every request."""
    engines = {"first": engine("one"), "second": engine("two")}
    registry = registry_globals(engines)
    with ScriptedHost(globals=registry) as host:
        assert await ask(host, path, "second") == "two"
        assert active_requests(registry) == {"second": 0}
        assert await ask(host, path, "first") == "one"
        assert await ask(host, path, "second") == "two"
    assert active_requests(registry) == {"first": 0, "second": 0}
    assert [len(model.calls) for model in engines.values()] == [2, 4]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_model_is_told_the_known_ones(stream: bool) -> None:
    """404 model_not_found, JSON also where a stream was asked for, and nothing is loaded."""
    registry = registry_globals({"first": engine("one"), "second": engine("two")})
    with ScriptedHost(globals=registry) as host:
        ours, chat = [
            await host.post(path, **body_for(path, model="third", stream=stream)) for path in (RESPONSES, CHAT)
        ]
    assert ours.status_code == 404
    error = refused_alike(ours, chat)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "`first`, `second`" in error["message"]
    assert active_requests(registry) == {}


@registered
@on_both_paths
async def test_a_model_is_given_back_whatever_happens(path: str) -> None:
    """After failures, refusals and structured answers as well: a model that is not would never be unloaded."""
    broken = LoadedEngine([Script(["x"], error=RuntimeError("boom"), error_after=1)])
    registry = registry_globals({"broken": broken, "good": engine('{"a": 1}')})
    json_format = {RESPONSES: {"text": JSON_FORMAT}, CHAT: {"response_format": JSON_FORMAT["format"]}}[path]
    with ScriptedHost(globals=registry) as host:
        assert (await host.post(path, **body_for(path, model="broken"))).status_code == 500
        failed = await host.post(path, **body_for(path, model="broken", stream=True))
        assert failed.status_code == 200
        assert path == CHAT or read_stream(failed.content)[-1].type == "response.failed"
        assert active_requests(registry) == {"broken": 0}
        assert await ask(host, path, "good", **json_format) == '{"a": 1}'
        broken._mllm = False
        # We refuse the image; the host leaves it out, and the engine fails once more.
        refused = await host.post(path, **body_for(path, model="broken", image=data_url("red")))
        assert refused.status_code == {RESPONSES: 400, CHAT: 500}[path]
    assert active_requests(registry) == {"broken": 0, "good": 0}


@registered
@on_both_paths
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_gives_its_model_back(path: str, stream: bool) -> None:
    """Under a real server; the lease is the host's, and found by our view of the request."""
    gate = Gate()
    held = LoadedEngine([Script(["Hel", "lo"], gates={1: gate}), Script(["Fine."])])
    registry = registry_globals({"held": held})
    with ScriptedHost(globals=registry) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url) as client:
            body = body_for(path, model="held")
            with pytest.raises(httpx.ReadTimeout):
                await client.post(path, json={**body, "stream": stream}, timeout=1)
            assert gate.reached.is_set()
            await wait_until_async(lambda: active_requests(registry) == {"held": 0}, "the model to be given back", 3)
            answer = await client.post(path, json=body)
    assert held.calls[0].aborted
    assert text_of(answer) == "Fine."
    assert active_requests(registry) == {"held": 0}


@registered
async def test_a_model_without_room_is_refused_while_others_work() -> None:
    """503 while the memory is taken by a model in use, which is not disturbed; afterwards it makes room."""
    gate = Gate()
    first, second = engine("one", gates={1: gate}), engine("two")
    registry = registry_globals({"first": first, "second": second}, room_for=1)
    with ScriptedHost(globals=registry) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url) as client, streaming(url, model="first") as stream:
            await stream.until("response.output_text.delta")
            for streamed in (False, True):
                ours, chat = [
                    await client.post(path, json=body_for(path, model="second", stream=streamed))
                    for path in (RESPONSES, CHAT)
                ]
                error = refused_alike(ours, chat)
                assert (ours.status_code, error["code"]) == (503, "service_unavailable")
                assert "memory budget" in error["message"]
            gate.open()
            assert joined_deltas(await stream.rest()) == "one"
            for path in (RESPONSES, CHAT):
                assert text_of(await client.post(path, json=body_for(path, model="second"))) == "two"
    assert (first.stopped, second.stopped) == (True, False)


@registered
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


@on_both_paths
async def test_a_model_that_fails_to_load_is_an_error(path: str) -> None:
    """In a status while there is one to choose, and the next attempt loads anew."""

    class Broken(LoadedEngine):
        async def start(self) -> None:
            self.calls.clear()
            raise ValueError("weights are missing")

    registry = registry_globals({"broken": Broken([Script(["never"])])})
    with ScriptedHost(globals=registry) as host:
        for stream in (False, True):
            refused = await host.post(path, **body_for(path, model="broken", stream=stream))
            assert refused.status_code == 500
            assert path == CHAT or error_of(refused)["code"] == "server_error"


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


@registered
@pytest.mark.parametrize("leaver", [0, 1], ids=["first", "second"])
@on_both_paths
async def test_a_client_that_leaves_does_not_stop_a_load(path: str, leaver: int) -> None:
    """Neither the one whose request has begun it nor one that waits for it; and no lease is left over."""
    loading, waiting = Gate(), Waiting()
    registry = registry_globals({"slow": engine("one", loading)})
    body = body_for(path, model="slow")
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


@registered
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


@on_both_paths
@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_in_use_is_not_idle(path: str, stream: bool) -> None:
    """However long the answer takes; then it is idle, is unloaded, and loaded again for the next request."""
    gate = Gate()
    first, second = engine("Hi", gates={1: gate}), engine("Again")
    lazy = lazy_globals([first, second], idle_seconds=0.1)
    residency = lazy["_residency_manager"]
    with ScriptedHost(globals=lazy) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            body = body_for(path, model=SCRIPTED_MODEL)
            request = asyncio.ensure_future(client.post(path, json={**body, "stream": stream}))
            await wait_until_async(gate.reached.is_set, "the engine to generate")
            used_at = residency.get_status(KEY)["last_used_at"]
            await wait_until_async(lambda: time.time() - used_at > 0.2, "the time to be up")
            assert await residency.unload_if_idle(KEY) is False
            gate.open()
            assert text_of(await request) == "Hi"
            await wait_until_async(lambda: residency.get_status(KEY)["active_requests"] == 0, "the end of the request")
            used_at = residency.get_status(KEY)["last_used_at"]
            await wait_until_async(lambda: time.time() - used_at > 0.1, "the time to be up")
            assert await residency.unload_if_idle(KEY) is True
            assert first.stopped
            answer = await client.post(path, json=body)
    assert text_of(answer) == "Again"


@idle_registered
@on_both_paths
@pytest.mark.parametrize("stream", [False, True])
async def test_a_registered_model_in_use_is_not_idle(path: str, stream: bool) -> None:
    """The same for a model of the registry, whose idle ones are looked for all together."""
    gate = Gate()
    registry = registry_globals({"one": engine("Hi", gates={1: gate})}, idle_seconds=0.05)
    manager = registry["_model_manager"]
    with ScriptedHost(globals=registry) as host:
        body = body_for(path, model="one", stream=stream)
        request = asyncio.ensure_future(host.post(path, **body))
        await wait_until_async(gate.reached.is_set, "the engine to generate")
        await wait_until_async(lambda: time.time() - manager._loaded["one"].last_used_at > 0.1, "the time to be up")
        assert await manager.unload_idle() == []
        gate.open()
        assert text_of(await request) == "Hi"
        await wait_until_async(lambda: time.time() - manager._loaded["one"].last_used_at > 0.1, "the time to be up")
        assert await manager.unload_idle() == ["one"]
        assert text_of(await host.post(path, **body)) == "Hi"


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


def post(server: HostServer, path: str, model: str, text: str, **fields: Any) -> httpx.Response:
    """The answer to a question, with an image or without."""
    body = body_for(path, text, model=model, temperature=0, **fields)
    return httpx.post(f"{server.url}{path}", json=body, timeout=60)


def answer(server: HostServer, path: str, model: str, text: str, **fields: Any) -> str:
    """The text of an answer of a real model."""
    response = post(server, path, model, text, **fields)
    assert model_of(response) == model
    return text_of(response)


def loaded_models(server: HostServer) -> set[str]:
    """What the registry of a server has in memory."""
    models = httpx.get(f"{server.api_url}/status").json()["model_manager"]["models"]
    return {model["id"] for model in models if model["status"] != "unloaded"}


@registered
@on_both_paths
@pytest.mark.parametrize("stream", [False, True])
def test_the_right_tiny_model_answers(registry_server: HostServer, path: str, stream: bool) -> None:
    """The one that sees names the colour, and the one that does not greets."""
    for colour in ("red", "blue"):
        seen = answer(registry_server, path, "eyes", tiny.ASK_COLOUR, image=data_url(colour), stream=stream)
        assert seen == tiny.colour_answer(colour)
        assert answer(registry_server, path, "words", "hello", stream=stream) == tiny.GREETING


@registered
@pytest.mark.parametrize("stream", [False, True])
def test_what_no_tiny_model_can_do_is_refused(registry_server: HostServer, stream: bool) -> None:
    """A model that is not there, as by the chat endpoint; and an image for the one that does not see, which the host
    would leave out.
    """
    ours, chat = [post(registry_server, path, "ears", "hello", stream=stream) for path in (RESPONSES, CHAT)]
    error = refused_alike(ours, chat)
    assert (ours.status_code, error["code"]) == (404, "model_not_found")
    blind = post(registry_server, RESPONSES, "words", tiny.ASK_COLOUR, image=data_url("red"), stream=stream)
    assert (blind.status_code, error_of(blind)["code"]) == (400, "unsupported_content_type")


@idle_registered
@on_both_paths
@pytest.mark.parametrize("stream", [False, True])
def test_idle_tiny_models_are_unloaded_and_come_back(registry_server: HostServer, path: str, stream: bool) -> None:
    """No lease of ours keeps them in memory, and the next request loads them again."""
    answer(registry_server, path, "words", "hello", stream=stream)
    wait_until(lambda: not loaded_models(registry_server), "the models to be unloaded", 30)
    assert answer(registry_server, path, "words", "hello", stream=stream) == tiny.GREETING
    assert "words" in loaded_models(registry_server)


@on_both_paths
@pytest.mark.parametrize("stream", [False, True])
def test_a_lazy_tiny_model_is_loaded_unloaded_and_comes_back(lazy_server: HostServer, path: str, stream: bool) -> None:
    """The first request finds no model and is answered; so is the first after it was unloaded."""

    def is_loaded() -> bool:
        return bool(httpx.get(f"{lazy_server.url}/health").json()["model_loaded"])

    for colour in ("green", "yellow"):
        wait_until(lambda: not is_loaded(), "the model to be unloaded", 30)
        seen = answer(lazy_server, path, MODEL_NAME, tiny.ASK_COLOUR, image=data_url(colour), stream=stream)
        assert seen == tiny.colour_answer(colour)
        assert is_loaded()
