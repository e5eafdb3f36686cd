"""``make demo``, and the examples that talk to it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import DOCS, Block, runnable_blocks

if TYPE_CHECKING:
    from tests.host.servers import HostServer

#: Where the pages say that the demo is.
ADDRESS = "127.0.0.1:8000"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def announced_command(demo: HostServer) -> str:
    """The command that the demo prints once it is ready."""
    deadline = time.monotonic() + 10
    while not (found := re.search(r"^curl .*?^\}'$", demo.log(), re.MULTILINE | re.DOTALL)):
        assert time.monotonic() < deadline, demo.log()
        time.sleep(0.1)
    return found[0]


def test_the_printed_request_is_answered(demo: HostServer) -> None:
    """The command that the demo prints can be pasted into a shell, and the model names the colour of its image."""
    done = run("bash", "-euc", announced_command(demo))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["output"][0]["content"][0]["text"] == "The dominant color is red."


def test_the_printed_request_can_be_streamed(demo: HostServer) -> None:
    """What the demo says about streaming holds: one more field, and curl -N."""
    command = announced_command(demo).replace("curl -s", "curl -sN").replace('"model"', '"stream": true, "model"')
    done = run("bash", "-euc", command)
    assert done.returncode == 0, done.stderr
    assert "event: response.completed\n" in done.stdout


@pytest.mark.parametrize("block", runnable_blocks("python", "with-server"), ids=lambda block: block.name)
def test_examples_run_against_the_demo(demo: HostServer, block: Block) -> None:
    """A Python block marked with-server runs as it stands while the demo does, and prints what its comments say."""
    assert ADDRESS in block.text
    done = run(sys.executable, "-c", block.text.replace(ADDRESS, demo.url.removeprefix("http://")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == block.expected_output()


def test_a_taken_port_is_named() -> None:
    """The demo says what to do when something else listens on its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = run(sys.executable, str(DOCS / "demo.py"), "--port", str(port))
    assert done.returncode == 1
    assert f"make demo PORT={port + 1}" in done.stderr
