"""Fixtures of the tests on the real host."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import openai
import pytest
from vllm_mlx import server

from responses_plugin.hooks.host import host_version
from tests.host import since
from tests.host.servers import ENGINE_OPTIONS, TINY_OPTIONS, HostServer, running_host

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this host cannot do."""
    items[:], left_out = since.split(items, host_version())
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session", autouse=True)
def _no_cache_of_another_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The host keeps the prefix cache of a batched engine in a folder by the name of its model, reads from it as late as
    it can, and writes over it. An engine that is stopped would take away what another one has not read yet.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_get_cache_dir", lambda: str(tmp_path_factory.mktemp("prefix_cache")))
        yield


@pytest.fixture(scope="session", params=list(ENGINE_OPTIONS))
def tiny_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The real host with the tiny model and the plugin, once with each of its engines."""
    log_path = tmp_path_factory.mktemp("host") / f"{request.param}.log"
    with running_host([*TINY_OPTIONS, *ENGINE_OPTIONS[request.param]], log_path) as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def own_stream_for_each_batched_engine() -> Iterator[None]:
    """Let every batched engine make its own stream.

    The host keeps one for the whole process, which belongs to the thread of the first engine: a server has one engine,
    tests have many, one after the other.
    """
    from vllm_mlx.mllm_batch_generator import MLLMBatchGenerator

    original = MLLMBatchGenerator.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        MLLMBatchGenerator._stream = None
        original(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MLLMBatchGenerator, "__init__", init)
        yield


@pytest.fixture
def client(tiny_server: HostServer) -> Iterator[openai.OpenAI]:
    """openai-python, talking to that host."""
    with openai.OpenAI(base_url=tiny_server.api_url, api_key="unused", max_retries=0, timeout=60) as client:
        yield client
