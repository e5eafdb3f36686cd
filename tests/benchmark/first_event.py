"""When the client hears something while the engine is still reading the prompt."""

from __future__ import annotations

from statistics import median

from tests.benchmark.bodies import chat_request, responses_request
from tests.benchmark.engine import BenchmarkHost
from tests.benchmark.exchange import Request
from tests.benchmark.report import Row, Section, Target
from tests.benchmark.scripts import TEXT
from tests.benchmark.throughput import Call

_NOTE = (
    "Milliseconds by the clock until the first byte of the body, while the engine takes {:g} s to read the prompt.\n"
    "Structured output is checked by the host before any of it is let out."
)
#: Longer than the 0.5 s in which the host may still refuse a request with a status of its own.
_MOST_SECONDS = 0.75
_PROMISES = {"plugin": 0.1, "plugin, structured output": _MOST_SECONDS}


async def measure(call: Call, prefill_seconds: float, turns: int) -> Section:
    """One row a kind of request."""
    stream = responses_request(stream=True)
    structured = responses_request(stream=True, text={"format": {"type": "json_object"}})
    requests: dict[str, tuple[Request, bool]] = {
        "plugin": (stream, True),
        "plugin, structured output": (structured, True),
        "chat": (chat_request(stream=True), False),
        "host": (stream, False),
    }
    seconds: dict[str, list[float]] = {name: [] for name in requests}
    with BenchmarkHost(TEXT) as host:
        host.engine.answer_with(["{}"])
        host.engine.prefill_seconds = prefill_seconds
        for _ in range(turns):
            for name, (request, with_plugin) in requests.items():
                with host.plugin(enabled=with_plugin):
                    exchange = await call(request)
                exchange.require_success()
                seconds[name].append(exchange.first_byte_seconds)
    rows: list[Row] = [{"request": name, "first byte": median(measured) * 1000} for name, measured in seconds.items()]
    targets = [
        Target(f"first event: {name}", median(seconds[name]) * 1000, most * 1000, "ms")
        for name, most in _PROMISES.items()
    ]
    return Section("first event", _NOTE.format(prefill_seconds), rows, targets)
