"""The real host as a subprocess, on 127.0.0.1."""

from __future__ import annotations

import os
import site
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
TINY_VLM = ROOT / "tests" / "checkpoints" / "tiny_vlm"
MODEL_NAME = "tiny-vlm"

START_SECONDS = 180.0
STOP_SECONDS = 20.0
LOG_TAIL_LINES = 60

#: The options of ``vllm-mlx serve`` that both tiny models need, and those of the one that sees.
PARSER_OPTIONS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--offline")
TEXT_OPTIONS = ("--served-model-name", MODEL_NAME, *PARSER_OPTIONS)
TINY_OPTIONS = (str(TINY_VLM), "--mllm", *TEXT_OPTIONS)
#: What to add to choose the engine.
ENGINE_OPTIONS: dict[str, tuple[str, ...]] = {"simple": (), "batched": ("--continuous-batching",)}

PLUGIN_COMMAND = ("-m", "tests.host.serve_on_cpu", "responses_plugin", "serve")
PLAIN_COMMAND = ("-m", "tests.host.serve_on_cpu", "vllm_mlx.cli", "serve")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


class HostStartError(AssertionError):
    """The host ended, or was not ready in time; the message holds the end of its log."""


class HostServer:
    """A running host."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log_path: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.api_url = f"{self.url}/v1"
        self.log_path = log_path

    def log(self) -> str:
        """Everything that the host has printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def wait_until_ready(self, seconds: float) -> None:
        """Return when the host answers. Raises :class:`HostStartError`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise HostStartError(self._report(f"ended with status {self.process.returncode}"))
            try:
                if httpx.get(f"{self.url}/health", timeout=2).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise HostStartError(self._report(f"was not ready after {seconds:g} s"))

    def stop(self) -> None:
        """End the process, gently if it lets us."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _report(self, what: str) -> str:
        tail = "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])
        return f"the host {what}\n{self.process.args!r}\n{tail}"


@contextmanager
def running_host(
    options: Sequence[str],
    log_path: Path,
    *,
    command: Sequence[str] = PLUGIN_COMMAND,
    start_seconds: float = START_SECONDS,
) -> Iterator[HostServer]:
    """Run the host with these options of ``serve``, on a free port, until the block ends."""
    port = free_port()
    # The batched engine keeps its prefix cache there, by the model's path alone: one of other weights would be used.
    home = log_path.with_suffix(".home")
    home.mkdir()
    environment = {"HOME": str(home), "PYTHONUSERBASE": site.getuserbase(), "HF_HUB_OFFLINE": "1"}
    arguments = [sys.executable, *command, *options, "--host", "127.0.0.1", "--port", str(port)]
    with log_path.open("wb") as log_file:
        process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env=os.environ | environment | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
        )
    server = HostServer(process, port, log_path)
    try:
        server.wait_until_ready(start_seconds)
        yield server
    finally:
        server.stop()
