"""What it takes to understand a request full of images.

The plugin's service reads the body as the server hands it over, parses it, checks each image and lowers it to chat
messages; the host behind it is none, and takes only these messages. The request stands against ``json.loads`` of the
same bytes, which is the least that any server in Python does with it.

Memory is measured in a process of its own, ``python -m tests.benchmark.parsing BODY``, as the growth of the most that
was resident: that counts the buffers of the parsers written in Rust and C and what allocators waste, which tracemalloc
does not see, and no earlier measurement can hide it. The body itself counts: the least possible is once its size.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import NamedTemporaryFile
from typing import Any

from starlette.requests import Request as StarletteRequest

from responses_plugin.context import EngineFacts
from responses_plugin.engine import ChatCall
from responses_plugin.plugins import load_plugins
from responses_plugin.service import ResponsesService
from responses_plugin.store.memory import MemoryStore
from tests.benchmark.bodies import image_request
from tests.benchmark.report import Row, Section, Target

_NOTE = (
    "A request of {:.1f} MB with {} images: CPU milliseconds from its bytes to chat messages, and the peak of resident\n"
    "memory meanwhile as a multiple of the body, the body included; json.loads of the same bytes for comparison."
)
_MOST_OF_LOADS = 2.0
_MOST_OF_BODY = 3.0
_ROOT = Path(__file__).parents[2]
_CHUNK_BYTES = 64 * 1024


async def measure(images: int, image_bytes: int, turns: int) -> Section:
    """One row for the plugin and one for ``json.loads``."""
    body = image_request(images, image_bytes).body
    service = make_service()
    seconds: dict[str, list[float]] = {"plugin": [], "json.loads": []}
    for _ in range(turns + 1):
        before = time.process_time()
        await understand(service, _chunks(body))
        between = time.process_time()
        json.loads(body)
        seconds["plugin"].append(between - before)
        seconds["json.loads"].append(time.process_time() - between)
    ratios = [ours / theirs for ours, theirs in zip(*seconds.values(), strict=True)][1:]
    peaks = _measure_peaks(body)
    rows: list[Row] = [
        {"way": way, "time": median(measured[1:]) * 1000, "peak / body": peaks[way]}
        for way, measured in seconds.items()
    ]
    targets = [
        Target(f"parsing: {images} images: plugin / json.loads", median(ratios), _MOST_OF_LOADS),
        Target(f"parsing: {images} images: peak memory / body", peaks["plugin"], _MOST_OF_BODY),
    ]
    return Section("parsing", _NOTE.format(len(body) / 1e6, images), rows, targets)


def make_service() -> ResponsesService:
    """The plugin's service, without a host."""
    return ResponsesService(plugins=load_plugins(discover=False), host=_NoHost(), store=MemoryStore(10, 1 << 30))


async def understand(service: ResponsesService, chunks: Iterator[bytes]) -> None:
    """Bytes to chat messages."""

    async def receive() -> dict[str, Any]:
        chunk = next(chunks, b"")
        return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}

    response = await service.create(StarletteRequest({"type": "http", "method": "POST", "headers": []}, receive))
    if response.status_code != 499:
        raise RuntimeError(f"the request was refused with {response.status_code}")


class _NoHost:
    """Takes the messages and has nothing to say."""

    async def complete(self, call: ChatCall, raw_request: StarletteRequest) -> None:
        call.lower(EngineFacts())

    async def stream(self, call: ChatCall, raw_request: StarletteRequest) -> None:
        call.lower(EngineFacts())


def _chunks(body: bytes) -> Iterator[bytes]:
    return (body[start : start + _CHUNK_BYTES] for start in range(0, len(body), _CHUNK_BYTES))


# --- Memory ----------------------------------------------------------------------------------------------------------


def _measure_peaks(body: bytes) -> dict[str, float]:
    with NamedTemporaryFile(suffix=".json") as file:
        file.write(body)
        file.flush()
        return {way: _peak_in_process(file.name, way) / len(body) for way in _WAYS}


def _peak_in_process(body: str, way: str) -> float:
    command = [sys.executable, "-m", "tests.benchmark.parsing", body, way]
    return float(subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout)


def _understand_file(path: Path) -> None:
    service = make_service()
    with path.open("rb") as file:
        asyncio.run(understand(service, iter(lambda: file.read(_CHUNK_BYTES), b"")))


def _load_file(path: Path) -> None:
    json.loads(path.read_bytes())


_WAYS: dict[str, Callable[[Path], None]] = {"plugin": _understand_file, "json.loads": _load_file}


def main() -> None:
    """Print by how many bytes the peak grows, over that of a small request."""
    path, way = Path(sys.argv[1]), _WAYS[sys.argv[2]]
    with NamedTemporaryFile() as small:
        small.write(image_request(2, 1000).body)
        small.flush()
        way(Path(small.name))
    before = _peak_bytes()
    way(path)
    sys.stdout.write(f"{_peak_bytes() - before}\n")


def _peak_bytes() -> int:
    """The most that was resident in this process."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not from getrusage, which on Linux tells a new process the peak of the one that started it.
        return int(status.read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
