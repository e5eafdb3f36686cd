"""A prompt that comes again to the batched text engine, with the tiny model and with requests that the tests look into."""

from __future__ import annotations

import inspect
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from vllm_mlx.engine.batched import BatchedEngine
from vllm_mlx.scheduler import Scheduler

from responses_plugin.hooks.repeated_prompts import SCHEDULE, prefill_whole_hits, responses_host_patches
from responses_plugin.patching import PatchSet, SeamStatus
from tests import tiny
from tests.checkpoints.training.export_text import export_text
from tests.host.servers import TINY_VLM

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract

#: The fresh turn and its continuation; the model answers the latter wrongly when the end of its prompt is there twice.
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": tiny.ASK_WEATHER}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
EXCHANGE = [
    *QUESTION,
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": tiny.WEATHER_RESULT},
]


async def ask_again(model: Path, *, stream: bool = False) -> list[str]:
    """The answers to the same prompt, three times, each after its fresh turn."""
    engine = BatchedEngine(str(model))
    await engine.start()
    options: dict[str, Any] = {"tools": tiny.CHAT_TOOLS, "max_tokens": 32, "temperature": 0.0}
    answers = []
    try:
        for _ in range(3):
            await engine.chat(QUESTION, **options)
            if stream:
                *_, output = [output async for output in engine.stream_chat(EXCHANGE, **options)]
            else:
                output = await engine.chat(EXCHANGE, **options)
            answers.append(output.text)
    finally:
        await engine.stop()
    return answers


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("text") / "model"
    export_text(TINY_VLM, model)
    return model


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_same_prompt_has_the_same_answer(text_model: Path, stream: bool) -> None:
    """However often it comes."""
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    try:
        assert await ask_again(text_model, stream=stream) == [tiny.WEATHER_ANSWER] * 3
    finally:
        patches.revert()


async def test_the_seam_is_taken_where_the_host_reads_it_otherwise(text_model: Path) -> None:
    """The probe agrees with what the host does when it is left alone."""
    is_right = await ask_again(text_model) == [tiny.WEATHER_ANSWER] * 3
    [patch] = responses_host_patches()
    assert patch.inspect().status is (SeamStatus.NOT_NEEDED if is_right else SeamStatus.TAKEN)


def request(hit: str | None, remaining: list[int]) -> SimpleNamespace:
    return SimpleNamespace(
        prompt_token_ids=[1, 2, 3],
        prompt_cache=["keys and values"] if hit else None,
        cached_tokens=3 - len(remaining),
        remaining_tokens=remaining,
        cache_hit_type=hit,
    )


@pytest.mark.parametrize("hit", ["exact", "supersequence"])
def test_a_prompt_that_was_found_whole_is_read_anew(hit: str) -> None:
    """And no tokens count as found."""
    waiting = request(hit, [])
    schedule = prefill_whole_hits(lambda self: vars(waiting).copy())
    scheduled = schedule(SimpleNamespace(waiting=deque([waiting])))
    assert scheduled == vars(request(hit, [1, 2, 3])) | {"prompt_cache": None}


@pytest.mark.parametrize(
    ("hit", "remaining"),
    [("prefix", [3]), ("lcp", [2, 3]), ("exact", [3]), ("hit", []), (None, [1, 2, 3])],
    ids=["prefix", "part", "exact but one", "cache of another kind", "miss"],
)
def test_what_is_left_to_read_is_read(hit: str | None, remaining: list[int]) -> None:
    """What the cache holds of other prompts is used."""
    waiting = request(hit, remaining)
    prefill_whole_hits(lambda self: None)(SimpleNamespace(waiting=deque([waiting])))
    assert vars(waiting) == vars(request(hit, remaining))


def test_reverting_restores_the_host_exactly() -> None:
    """The very function that was there is there again."""
    before = inspect.getattr_static(Scheduler, SCHEDULE)
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    patches.revert()
    assert inspect.getattr_static(Scheduler, SCHEDULE) is before
