"""The host with an engine that costs as good as nothing: all its outputs are made before it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vllm_mlx.engine.base import GenerationOutput

import responses_plugin
from tests.benchmark.bodies import MODEL
from tests.benchmark.scripts import Scenario
from tests.host.scripted import ScriptedEngine, ScriptedHost


class ReadyEngine(ScriptedEngine):
    """Answers with outputs that exist already, after ``prefill_seconds``."""

    def __init__(self, *, mllm: bool = True) -> None:
        super().__init__([], mllm=mllm)
        self._outputs: list[GenerationOutput] = []
        self.prefill_seconds = 0.0

    def answer_with(self, pieces: Sequence[str]) -> None:
        """Make the outputs of the calls to come; only the last one holds the whole text."""
        last = len(pieces)
        self._outputs = [
            GenerationOutput(
                text="".join(pieces) if count == last else "",
                new_text=piece,
                prompt_tokens=10,
                completion_tokens=count,
                finished=count == last,
                finish_reason="stop" if count == last else None,
            )
            for count, piece in enumerate(pieces, 1)
        ]

    async def chat(self, messages: list[dict[str, Any]], **kwargs: Any) -> GenerationOutput:
        await asyncio.sleep(self.prefill_seconds)
        return self._outputs[-1]

    async def stream_chat(self, messages: list[dict[str, Any]], **kwargs: Any) -> AsyncIterator[GenerationOutput]:
        await asyncio.sleep(self.prefill_seconds)
        for output in self._outputs:
            # An engine waits for each token in one way or another, and the event loop goes around meanwhile.
            await asyncio.sleep(0)
            yield output


class BenchmarkHost(ScriptedHost):
    """The host for one scenario, without the plugin until someone enables it."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(
            tool_parser=scenario.tool_parser,
            reasoning_parser=scenario.reasoning_parser,
            plugin=False,
            # A stream of many tokens is no reason to give up on it.
            globals={"_default_timeout": 3600.0, "_model_name": MODEL},
        )
        self.engine: ReadyEngine = ReadyEngine()

    @contextmanager
    def plugin(self, *, enabled: bool) -> Iterator[None]:
        """With the plugin in this host, or without, until the block ends."""
        if enabled:
            responses_plugin.enable()
        try:
            yield
        finally:
            responses_plugin.disable()
