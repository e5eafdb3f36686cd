"""enable() and disable() on the installed host, whose app exists already."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient
from vllm_mlx import server

import responses_plugin
from responses_plugin import runtime
from responses_plugin.hooks.host import Host, host_version
from responses_plugin.patching import HostMismatch, SymbolPatch

pytestmark = pytest.mark.contract


def photograph() -> dict[Any, Any]:
    """Everything in the host that a patch could change, by identity: module globals, class members, routes."""
    picture: dict[Any, Any] = {"routes": [id(route) for route in server.app.router.routes]}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "vllm_mlx" or not isinstance(module, ModuleType):
            continue
        for key, value in vars(module).items():
            picture[name, key] = id(value)
            if isinstance(value, type) and value.__module__ == name:
                picture |= {(name, key, member): id(attribute) for member, attribute in vars(value).items()}
    return picture


def changes(before: dict[Any, Any], after: dict[Any, Any]) -> set[Any]:
    """What differs in places that were there before: importing more of the host is no change."""
    return {place for place, value in before.items() if after.get(place) != value}


@pytest.fixture(autouse=True)
def _as_it_was():
    """The host before the first test is the host after each."""
    # Looking at the places of the patches may import more of the host.
    runtime.collect_patches(runtime.make_host(runtime.Settings(), runtime.installed_plugins())).states()
    before = photograph()
    yield
    responses_plugin.disable()
    assert changes(before, photograph()) == set()


def the_route(path: str = "/v1/responses", method: str = "POST") -> tuple[int, APIRoute]:
    """The one route for this path and method, and its place among all."""
    (found,) = [
        (index, route)
        for index, route in enumerate(server.app.router.routes)
        if getattr(route, "path", None) == path and method in (getattr(route, "methods", None) or ())
    ]
    return found


def test_the_app_serves_our_endpoint_in_the_hosts_place():
    """The route keeps its index, stays an APIRoute (the host's metrics read its path), and runs our code."""
    host_index, host_route = the_route()
    responses_plugin.enable()
    index, route = the_route()
    assert index == host_index
    assert isinstance(route, APIRoute)
    assert route.endpoint.__module__.startswith("responses_plugin")
    assert route.endpoint is not host_route.endpoint


def test_a_replacement_takes_whatever_its_original_takes():
    """Also what only some releases pass, and by name: a replacement that refuses it would cost the host the call."""
    plugins = runtime.installed_plugins()
    patches = plugins.host_patches(runtime.make_host(runtime.Settings(), plugins))
    symbols = [patch for patch in patches if isinstance(patch, SymbolPatch)]
    assert symbols
    for patch in symbols:
        declared = inspect.getattr_static(patch.owner, patch.name, None)
        if declared is None:
            # Not needed where it does not exist.
            continue
        original = getattr(declared, "__func__", declared)
        parameters = inspect.signature(original).parameters.values()
        named = {each.name: ... for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
        inspect.signature(patch.replace(original), follow_wrapped=False).bind(**named)


def test_a_request_reaches_the_plugin_and_later_the_host_again(monkeypatch):
    """A request that is wrong for both is answered in OpenAI's error shape by us, and in FastAPI's by the host."""
    monkeypatch.setattr(server, "_auth_warning_logged", True)
    client = TestClient(server.app)
    assert "detail" in client.post("/v1/responses", json={"input": 7}).json()
    responses_plugin.enable()
    answer = client.post("/v1/responses", json={"model": "m", "input": 7})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    responses_plugin.disable()
    assert "detail" in client.post("/v1/responses", json={"input": 7}).json()


def test_disable_restores_the_host_exactly():
    """Every module global, class member and route is the very object it was; enabled, some are not."""
    before = photograph()
    responses_plugin.enable()
    assert changes(before, photograph())
    responses_plugin.disable()
    assert changes(before, photograph()) == set()


def test_both_are_idempotent():
    """Enabling twice patches once: one disable() is enough, and a second does nothing."""
    before = photograph()
    responses_plugin.enable()
    enabled = photograph()
    responses_plugin.enable()
    assert photograph() == enabled
    responses_plugin.disable()
    responses_plugin.disable()
    assert changes(before, photograph()) == set()


def test_the_apps_description_names_our_routes_only_while_they_are_there():
    """/openapi.json is made anew on both occasions."""
    client = TestClient(server.app)
    path = "/v1/responses/{response_id}"
    assert path not in client.get("/openapi.json").json()["paths"]
    responses_plugin.enable()
    assert path in client.get("/openapi.json").json()["paths"]
    responses_plugin.disable()
    assert path not in client.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize(
    ("break_it", "found"),
    [
        (
            lambda patch: patch.setattr(server, "stream_chat_completion", lambda request: None),
            r"vllm_mlx\.server\.stream_chat_completion\(request\)",
        ),
        (lambda patch: patch.delattr(server, "stream_chat_completion"), "no such name"),
    ],
    ids=["another signature", "missing"],
)
def test_a_host_that_does_not_fit_is_refused_whole(monkeypatch, break_it, found):
    """The error names version, seam, what was expected and what was found; nothing is half patched."""
    break_it(monkeypatch)
    before = photograph()
    with pytest.raises(HostMismatch, match=found) as caught:
        responses_plugin.enable()
    assert changes(before, photograph()) == set()
    message = str(caught.value)
    assert f"vllm-mlx {host_version()}" in message
    assert "engine output: expected vllm_mlx.server.stream_chat_completion(engine, messages, request)" in message


def test_the_host_is_found_where_it_runs(monkeypatch):
    """The server module is the imported one, or ``__main__`` when it was started as that; never a second copy."""
    assert Host().server is server
    assert Host().app is server.app
    assert Host().cli.__name__ == "vllm_mlx.cli"
    running = ModuleType("__main__")
    running.__spec__ = server.__spec__
    monkeypatch.setitem(sys.modules, "__main__", running)
    assert Host().server is running
    assert Host().cli.__name__ == "vllm_mlx.cli"


def test_the_version_is_that_of_the_installed_release():
    """Both sources of the version agree here, unlike ``app.version``."""
    assert Host().version == sys.modules["vllm_mlx"].__version__


def test_a_host_without_plugins_says_so():
    """The flag finds the host before plugins are loaded; code that needs them then gets a clear error."""
    with pytest.raises(RuntimeError, match="made without plugins"):
        _ = Host().plugins
