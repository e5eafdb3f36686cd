"""The demo as a reader starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import DOCS
from tests.host.servers import HostServer, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 180.0


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostServer]:
    """What ``make demo`` starts, on a free port."""
    port = free_port()
    log_path = tmp_path_factory.mktemp("demo") / "demo.log"
    with log_path.open("wb") as log_file:
        process = subprocess.Popen(
            [sys.executable, str(DOCS / "demo.py"), "--port", str(port)],
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
        )
    server = HostServer(process, port, log_path)
    try:
        server.wait_until_ready(START_SECONDS)
        yield server
    finally:
        server.stop()
