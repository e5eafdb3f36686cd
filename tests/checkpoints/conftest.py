"""Fixtures of the tests of the checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
import pytest

from tests.host.servers import ENGINE_OPTIONS, PLAIN_COMMAND, TINY_OPTIONS, HostServer, running_host

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=list(ENGINE_OPTIONS))
def plain_host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """The real host without the plugin, serving the tiny model, once with each of its engines."""
    log_path = tmp_path_factory.mktemp("host") / f"{request.param}.log"
    with running_host([*TINY_OPTIONS, *ENGINE_OPTIONS[request.param]], log_path, command=PLAIN_COMMAND) as server:
        yield server


@pytest.fixture
def chat_client(plain_host: HostServer) -> Iterator[openai.OpenAI]:
    """openai-python, talking to that host."""
    with openai.OpenAI(base_url=plain_host.api_url, api_key="unused", max_retries=0, timeout=60) as client:
        yield client
