"""For how long one request keeps the event loop from everybody else."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from tests.benchmark.bodies import history_request, image_request, responses_request
from tests.benchmark.engine import BenchmarkHost
from tests.benchmark.report import Section, Target
from tests.benchmark.scripts import SCENARIOS, words
from tests.benchmark.throughput import Call

_NOTE = (
    "Milliseconds of the longest time in which a request let nobody else run, whole requests under uvicorn: what a task\n"
    "that wakes up every millisecond has to wait, or the CPU time that passed meanwhile, if that is less: waiting for\n"
    "another process of this machine is no block. Median and worst of the turns."
)
_BEAT_SECONDS = 0.001
_MOST_MILLISECONDS = 50.0


class Heartbeat:
    """Wakes up again and again, and remembers the longest wait."""

    longest = 0.0

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _beat(self) -> None:
        while True:
            clock, cpu = time.perf_counter(), time.process_time()
            try:
                await asyncio.sleep(_BEAT_SECONDS)
            finally:
                late = time.perf_counter() - clock - _BEAT_SECONDS
                self.longest = max(self.longest, min(late, time.process_time() - cpu))


async def measure(call: Call, *, images: int, image_bytes: int, tokens: int, items: int, turns: int) -> Section:
    """One row a kind of request."""
    requests = {
        f"{images} images, stream": (image_request(images, image_bytes), words(10)),
        f"{images} images, whole": (image_request(images, image_bytes, stream=False), words(10)),
        f"{tokens:,} tokens, stream": (responses_request(stream=True), words(tokens)),
        f"{tokens:,} tokens, whole": (responses_request(stream=False), words(tokens)),
        f"{items:,} items, stream": (history_request(items), words(10)),
        f"{items:,} items, whole": (history_request(items, stream=False), words(10)),
    }
    longest: dict[str, list[float]] = {name: [] for name in requests}
    with BenchmarkHost(SCENARIOS[-1]) as host, host.plugin(enabled=True):
        for _ in range(turns):
            for name, (request, pieces) in requests.items():
                host.engine.answer_with(pieces)
                gc.collect()
                heartbeat = Heartbeat()
                async with heartbeat.beating():
                    exchange = await call(request)
                exchange.require_success()
                longest[name].append(heartbeat.longest * 1000)
    rows = [
        {"request": name, "median": median(measured), "worst": max(measured)} for name, measured in longest.items()
    ]
    targets = [
        Target(f"blocking: {name}", median(measured), _MOST_MILLISECONDS, "ms") for name, measured in longest.items()
    ]
    return Section("blocking", _NOTE, rows, targets)
