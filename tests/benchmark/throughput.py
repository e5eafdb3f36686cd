"""What an answer costs, streamed and whole, in this process and through uvicorn, on three ways through the host."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.benchmark.bodies import chat_request, responses_request
from tests.benchmark.engine import BenchmarkHost
from tests.benchmark.exchange import Exchange, Request
from tests.benchmark.report import Row, Section, Target
from tests.benchmark.scripts import CALL, REASONING, TEXT, TOOLS, Scenario

Call = Callable[[Request], Awaitable[Exchange]]

_SCENARIOS = (TEXT, REASONING, TOOLS, CALL)
PLUGIN, CHAT, HOST = "plugin", "chat", "host"
#: The most that a token may cost, as a multiple of what it costs on the host's chat endpoint.
_MOST_OF_CHAT = 1.25
#: The most that a token of the longest answer may cost, as a multiple of one of the shortest.
_MOST_WITH_LENGTH = 1.1

_STREAM_NOTE = (
    "CPU microseconds per token of a streamed answer: the plugin's /v1/responses, the host's /v1/chat/completions, the\n"
    "host's own /v1/responses (the plugin disabled for the last two), and the plugin's as a multiple of the others'.\n"
    "Targets are for uvicorn. The host's parser of calls reads the whole call again with every token of it, on every way."
)
_WHOLE_NOTE = "CPU milliseconds of an answer that is not streamed, the same ways."


@dataclass(frozen=True)
class _Way:
    """A way through the host."""

    request: Request
    with_plugin: bool = False


#: Seconds of one answer in each turn, by number of tokens and way.
_Costs = Mapping[tuple[int, str], Sequence[float]]


async def measure_streams(calls: Mapping[str, Call], lengths: Sequence[int], turns: int) -> Section:
    """Every scenario with every client, at every length. The targets are for what a client of a server gets."""
    rows: list[Row] = []
    targets: list[Target] = []
    shortest, longest = min(lengths), max(lengths)
    for scenario in _SCENARIOS:
        for client, call in calls.items():
            costs = await _measure(scenario, call, lengths, turns, stream=True)
            rows += [_row(scenario, client, length, costs, scale=1e6 / length) for length in lengths]
        for length in lengths:
            name = f"stream: {scenario.name}, {length:,} tokens: plugin / chat"
            targets.append(Target(name, _ratio(costs, (length, PLUGIN), (length, CHAT)), _MOST_OF_CHAT))
        if longest > shortest and scenario is not CALL:
            growth = _ratio(costs, (longest, PLUGIN), (shortest, PLUGIN)) * shortest / longest
            name = f"stream: {scenario.name}: a token of {longest:,} / one of {shortest:,}"
            targets.append(Target(name, growth, _MOST_WITH_LENGTH))
    return Section("stream", _STREAM_NOTE, rows, targets)


async def measure_whole(calls: Mapping[str, Call], lengths: Sequence[int], turns: int) -> Section:
    """The same for answers that are not streamed; they have no target."""
    rows: list[Row] = []
    for scenario in _SCENARIOS:
        for client, call in calls.items():
            costs = await _measure(scenario, call, lengths, turns, stream=False)
            rows += [_row(scenario, client, length, costs, scale=1e3) for length in lengths]
    return Section("whole", _WHOLE_NOTE, rows)


async def _measure(scenario: Scenario, call: Call, lengths: Sequence[int], turns: int, *, stream: bool) -> _Costs:
    """Everything once in each turn, so that a slow minute of the machine hits all alike."""
    tools = scenario.declares_tools
    responses = responses_request(stream=stream, tools=tools)
    ways = {
        PLUGIN: _Way(responses, with_plugin=True),
        CHAT: _Way(chat_request(stream=stream, tools=tools)),
        HOST: _Way(responses),
    }
    costs: dict[tuple[int, str], list[float]] = {(length, way): [] for length in lengths for way in ways}
    with BenchmarkHost(scenario) as host:
        for _ in range(turns):
            for name, way in ways.items():
                with host.plugin(enabled=way.with_plugin):
                    # The first request pays for what is made once.
                    await _cost(host, call, way.request, scenario.pieces(10))
                    for length in lengths:
                        cost = await _cost(host, call, way.request, scenario.pieces(length))
                        costs[length, name].append(cost)
    return costs


async def _cost(host: BenchmarkHost, call: Call, request: Request, pieces: Sequence[str]) -> float:
    host.engine.answer_with(pieces)
    gc.collect()
    before = time.process_time()
    exchange = await call(request)
    cost = time.process_time() - before
    exchange.require_success()
    return cost


def _row(scenario: Scenario, client: str, length: int, costs: _Costs, scale: float) -> Row:
    return {
        "answer": scenario.name,
        "client": client,
        "tokens": length,
        **{way: median(costs[length, way]) * scale for way in (PLUGIN, CHAT, HOST)},
        "plugin/chat": _ratio(costs, (length, PLUGIN), (length, CHAT)),
        "plugin/host": _ratio(costs, (length, PLUGIN), (length, HOST)),
    }


def _ratio(costs: _Costs, of: tuple[int, str], to: tuple[int, str]) -> float:
    return median(one / other for one, other in zip(costs[of], costs[to], strict=True))
