"""Fixtures of the tests on the real host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
import pytest

from tests.host.servers import ENGINE_OPTIONS, TINY_OPTIONS, HostServer, running_host

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", params=list(ENGINE_OPTIONS))
def tiny_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The real host with the tiny model and the plugin, once with each of its engines."""
    log_path = tmp_path_factory.mktemp("host") / f"{request.param}.log"
    with running_host([*TINY_OPTIONS, *ENGINE_OPTIONS[request.param]], log_path) as server:
        yield server


@pytest.fixture
def client(tiny_server: HostServer) -> Iterator[openai.OpenAI]:
    """openai-python, talking to that host."""
    with openai.OpenAI(base_url=tiny_server.api_url, api_key="unused", max_retries=0, timeout=60) as client:
        yield client
