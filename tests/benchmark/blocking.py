"""For how long one request keeps the event loop from everybody else."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median

from tests.benchmark.bodies import (
    history_chat_request,
    history_request,
    image_chat_request,
    image_request,
    responses_request,
)
from tests.benchmark.engine import BenchmarkHost
from tests.benchmark.exchange import Request
from tests.benchmark.report import Row, Section, Target
from tests.benchmark.scripts import CALL, REASONING, TEXT, TOOLS, Scenario
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


@dataclass(frozen=True)
class _Case:
    """One request and its answer."""

    name: str
    request: Request
    scenario: Scenario = TEXT
    tokens: int = 10
    #: The host on its own, to compare with; it has no target.
    with_plugin: bool = True


def _cases(images: int, image_bytes: int, tokens: int, items: int) -> list[_Case]:
    plain, whole = responses_request(stream=True), responses_request(stream=False)
    tools = responses_request(stream=True, tools=True)
    return [
        _Case(f"{images} images, stream", image_request(images, image_bytes)),
        _Case(f"{images} images, whole", image_request(images, image_bytes, stream=False)),
        _Case(f"{images} images, host chat", image_chat_request(images, image_bytes), with_plugin=False),
        _Case(f"{tokens:,} tokens, stream", plain, TEXT, tokens),
        _Case(f"{tokens:,} tokens with a thought, stream", plain, REASONING, tokens),
        _Case(f"{tokens:,} tokens of a call, stream", tools, CALL, tokens),
        _Case(f"{tokens:,} tokens, whole", whole, TEXT, tokens),
        _Case(f"{items:,} items, stream", history_request(items), TOOLS),
        _Case(f"{items:,} items, whole", history_request(items, stream=False), TOOLS),
        _Case(f"{items:,} items, host chat", history_chat_request(items), TOOLS, with_plugin=False),
    ]


async def measure(call: Call, *, images: int, image_bytes: int, tokens: int, items: int, turns: int) -> Section:
    """One row a kind of request."""
    cases = _cases(images, image_bytes, tokens, items)
    longest: dict[str, list[float]] = {case.name: [] for case in cases}
    for _ in range(turns):
        for case in cases:
            longest[case.name].append(await _longest_block(case, call) * 1000)
    rows: list[Row] = [
        {"request": name, "median": median(measured), "worst": max(measured)} for name, measured in longest.items()
    ]
    targets = [
        Target(f"blocking: {case.name}", median(longest[case.name]), _MOST_MILLISECONDS, "ms")
        for case in cases
        if case.with_plugin
    ]
    return Section("blocking", _NOTE, rows, targets)


async def _longest_block(case: _Case, call: Call) -> float:
    with BenchmarkHost(case.scenario) as host, host.plugin(enabled=case.with_plugin):
        host.engine.answer_with(case.scenario.pieces(case.tokens))
        gc.collect()
        heartbeat = Heartbeat()
        async with heartbeat.beating():
            exchange = await call(case.request)
    exchange.require_success()
    return heartbeat.longest
