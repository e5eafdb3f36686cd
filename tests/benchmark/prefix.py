"""What a turn of an agent's session prefills again, on the real host with the tiny model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from tests.benchmark import trace
from tests.benchmark.prefill_counter import prefilled
from tests.benchmark.report import Row, Section, Target
from tests.checkpoints.training.export_text import export_text
from tests.host.servers import ENGINE_OPTIONS, TEXT_OPTIONS, TINY_OPTIONS, TINY_VLM, running_host
from tests.reading import lower_body

WAYS = PLUGIN, CHAT, HOST = "plugin", "host chat", "host's own"

_NOTE = (
    "R = prefilled tokens / new tokens, summed over the turns 2 to 12 of a session that is replayed in full each time.\n"
    "Prefilled is what the model's forward passes read, new is by how much the prompt grows, the model's answer\n"
    "included: an engine that keeps its answers can be below 1. Host chat gets the messages that the plugin lowers.\n"
    "Right is how many of the twelve answers are those of the session: the host's own /v1/responses drops what it does\n"
    "not know, and a prompt without it is cheap. A server of its own, with an empty cache, for each."
)
#: As good as no token twice.
_MOST_BATCHED_TEXT = 1.0
_ANSWER_SECONDS = 120.0

_Body = dict[str, Any]


@dataclass(frozen=True)
class Route:
    """One way through the host, by model and engine."""

    engine: str
    is_mllm: bool
    images: bool = False


ROUTES: dict[str, Route] = {
    "simple text": Route("simple", is_mllm=False),
    "simple MLLM": Route("simple", is_mllm=True, images=True),
    "batched text": Route("batched", is_mllm=False),
    "batched MLLM": Route("batched", is_mllm=True),
    "batched MLLM, images": Route("batched", is_mllm=True, images=True),
}


@dataclass(frozen=True)
class Answered:
    """One turn: tokens of the prompt, tokens prefilled for it, and what came of it."""

    prompt: int
    prefilled: int
    is_right: bool


@dataclass(frozen=True)
class Session:
    """The turns that were answered, of so many; an endpoint that refuses one is through with the session."""

    turns: Sequence[Answered]
    length: int

    @property
    def new(self) -> int:
        return sum(later.prompt - earlier.prompt for earlier, later in pairwise(self.turns))

    @property
    def prefilled(self) -> int:
        return sum(turn.prefilled for turn in self.turns[1:])

    @property
    def ratio(self) -> float | None:
        """None for a session that did not get to its end."""
        return self.prefilled / self.new if len(self.turns) == self.length and self.new else None

    @property
    def right(self) -> int:
        return sum(turn.is_right for turn in self.turns)


def measure(names: Sequence[str]) -> Section:
    """One row a route."""
    rows: list[Row] = []
    targets: list[Target] = []
    for name in names:
        sys.stderr.write(f"  {name}\n")
        sessions = hold_sessions(ROUTES[name])
        rows.append(_row(name, sessions))
        targets += targets_of(name, sessions)
    return Section("prefix", _NOTE, rows, targets)


def targets_of(name: str, sessions: Mapping[str, Session]) -> list[Target]:
    """What the session of the plugin must be like on this route, beside that of host chat."""
    plugin, chat = sessions[PLUGIN].ratio, sessions[CHAT].ratio
    if plugin is None or chat is None:
        raise RuntimeError(f"{name}: a turn was refused")
    targets = [Target(f"prefix: {name}: R of the plugin / of host chat", plugin / chat, 1.0, counted=True)]
    if name == "batched text":
        targets.append(Target(f"prefix: {name}: R of the plugin", plugin, _MOST_BATCHED_TEXT, counted=True))
    return targets


def _row(name: str, sessions: Mapping[str, Session]) -> Row:
    return {
        "route": name,
        "new": sessions[PLUGIN].new,
        "prefilled": sessions[PLUGIN].prefilled,
        **{f"R {way}": session.ratio for way, session in sessions.items()},
        "right": " ".join(str(session.right) for session in sessions.values()),
    }


# --- Sessions --------------------------------------------------------------------------------------------------------


def hold_sessions(route: Route, ways: Sequence[str] = WAYS, length: int = trace.TURNS) -> dict[str, Session]:
    """The session, or the beginning of it, in each of these ways. Servers side by side do not count differently."""
    with ThreadPoolExecutor() as pool:
        held = {name: pool.submit(_serve, route, *_SERVED[name], length) for name in ways}
        return {name: session.result() for name, session in held.items()}


def _serve(route: Route, module: str, way: _Way, length: int) -> Session:
    """Hold the session with a server of its own, which has cached nothing yet."""
    with TemporaryDirectory(prefix="responses-benchmark-") as folder:
        model, record = Path(folder, "model"), Path(folder, "prefilled")
        if not route.is_mllm:
            export_text(TINY_VLM, model)
        options = [*(TINY_OPTIONS if route.is_mllm else (str(model), *TEXT_OPTIONS)), *ENGINE_OPTIONS[route.engine]]
        command = ("-m", "tests.benchmark.prefill_counter", str(record), module, "serve")
        with (
            running_host(options, Path(folder, "host.log"), command=command) as server,
            httpx.Client(base_url=server.api_url, timeout=_ANSWER_SECONDS) as client,
        ):
            return _hold(client, route, record, way, length)


def _hold(client: httpx.Client, route: Route, record: Path, way: _Way, length: int) -> Session:
    turns = trace.session(images=route.images)[:length]
    answered: list[Answered] = []
    before = prefilled(record)
    for turn, items in zip(turns, trace.replays(turns), strict=True):
        answer = way(client, route, trace.request(items))
        if answer is None:
            break
        # What an engine prefills once the answer is out counts for the turn after.
        after = prefilled(record)
        prompt, said = answer
        answered.append(Answered(prompt, after - before, said == trace.said(turn.answer)))
        before = after
    return Session(answered, length)


# --- Ways ------------------------------------------------------------------------------------------------------------

#: Sends a request; what comes back are the tokens of the prompt and what was said, or None from who refuses it.
_Way = Callable[[httpx.Client, Route, _Body], tuple[int, list[str]] | None]


def _respond(client: httpx.Client, _route: Route, body: _Body) -> tuple[int, list[str]] | None:
    answer = client.post("/responses", json=body)
    if not answer.is_success:
        return None
    response = answer.json()
    return response["usage"]["input_tokens"], trace.said(response["output"])


def _chat(client: httpx.Client, route: Route, body: _Body) -> tuple[int, list[str]] | None:
    chat, messages = lower_body(body, supports_images=route.is_mllm)
    answer = client.post("/chat/completions", json={**chat, "messages": messages})
    if not answer.is_success:
        return None
    completion = answer.json()
    message = completion["choices"][0]["message"]
    names = [call["function"]["name"] for call in message.get("tool_calls") or []]
    text = message.get("content")
    return completion["usage"]["prompt_tokens"], [*([text] if text else []), *names]


#: What is started for each way, and how it is asked.
_SERVED: dict[str, tuple[str, _Way]] = {
    PLUGIN: ("responses_plugin", _respond),
    CHAT: ("vllm_mlx.cli", _chat),
    HOST: ("vllm_mlx.cli", _respond),
}
