"""Positions in the batched engine: with the tiny model, whose positions are multimodal, and with a model that tells."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from vllm_mlx import mllm_batch_generator
from vllm_mlx.engine.batched import BatchedEngine
from vllm_mlx.mllm_batch_generator import MLLMBatchGenerator

from responses_plugin.hooks import batched_prefix_cache
from responses_plugin.hooks.request_positions import (
    DRAFTING,
    PREFILL_MEDIA,
    PREFILL_TEXT,
    STEP,
    draft_with_own_positions,
    responses_host_patches,
    start_afresh,
    use_own_positions,
)
from responses_plugin.patching import PatchSet, SeamStatus
from tests import tiny
from tests.host.servers import TINY_VLM
from tests.images import data_url

pytestmark = pytest.mark.contract

SHORT = ("Hi!", tiny.GREETING)
LONGER = (tiny.ASK_COLOUR, tiny.NO_IMAGE)
LONGEST = (tiny.ASK_PATCH, tiny.NO_TOOL)


def question(words: str, *colours: str) -> list[dict[str, Any]]:
    pictures = [{"type": "image_url", "image_url": {"url": data_url(colour)}} for colour in colours]
    return [{"role": "user", "content": [{"type": "text", "text": words}, *pictures]}]


async def test_no_prompt_gets_the_positions_of_another() -> None:
    """Shorter and longer ones, with images and without, are answered the same one after the other and all at once."""
    patches = PatchSet("under test", [*batched_prefix_cache.responses_host_patches(), *responses_host_patches()])
    patches.apply()
    engine = BatchedEngine(str(TINY_VLM), force_mllm=True)
    await engine.start()
    try:
        asked = [
            *((question(words), answer) for words, answer in (SHORT, LONGER, LONGEST)),
            (question(tiny.ASK_COLOUR, "red"), tiny.colour_answer("red")),
            *((question(words), answer) for words, answer in (LONGER, SHORT, LONGEST)),
            (question(tiny.ASK_COLOUR, "blue"), tiny.colour_answer("blue")),
        ]

        async def answer(messages: list[dict[str, Any]]) -> str:
            return str((await engine.chat(messages, max_tokens=24, temperature=0.0)).text)

        expected = [text for _, text in asked]
        assert [await answer(messages) for messages, _ in asked] == expected
        assert await asyncio.gather(*(answer(messages) for messages, _ in asked)) == expected
    finally:
        await engine.stop()
        patches.revert()


# --- Without a model -------------------------------------------------------------------------------------------------


class Memory:
    """What a model with multimodal positions remembers."""

    def __init__(self) -> None:
        self._rope_deltas: Any = mx.array([[-7]])
        self._position_ids: Any = "those of another"


class Generator:
    """The host's, as far as the patches see it: ``deltas`` are what a request's media take off its positions."""

    def __init__(self, model: Any) -> None:
        self.language_model = model
        self.active_batch: Any = None
        #: What the model remembered at each step.
        self.steps: list[Any] = []

    @start_afresh
    def prefill(self, request: Any, cache: Any = None) -> str:
        if hasattr(self.language_model, "_rope_deltas"):
            assert self.language_model._position_ids is None, "nothing of another request is left"
            assert self.language_model._rope_deltas.tolist() == [[0]]
            self.language_model._rope_deltas = mx.array([[-3 if request.delta is None else request.delta]])
            self.language_model._position_ids = "its own"
        if request.delta is None:
            raise ValueError("no such image")
        return f"logits of {request.name}"

    @use_own_positions
    def _step(self, input_tokens: Any, cache: Any, extra: str = "") -> str:
        deltas = getattr(self.language_model, "_rope_deltas", None)
        self.steps.append(None if deltas is None else deltas.tolist())
        return f"tokens{extra}"


def request(name: str, delta: int | None) -> SimpleNamespace:
    return SimpleNamespace(name=name, delta=delta)


def step(generator: Generator, *requests: Any) -> list[Any]:
    generator.active_batch = SimpleNamespace(requests=list(requests))
    generator._step(mx.zeros((len(requests), 1)), [])
    return list(generator.steps[-1])


def test_each_request_of_a_batch_has_its_own_number() -> None:
    """In the order of the batch, also when it changes; a request whose prompt came from the cache has none."""
    generator = Generator(Memory())
    picture, text, cached = request("picture", -5), request("text", 0), request("cached", 0)
    assert generator.prefill(picture, []) == "logits of picture"
    assert generator.prefill(text, []) == "logits of text"
    assert step(generator, picture, text, cached) == [[-5], [0], [0]]
    assert step(generator, text, picture) == [[0], [-5]]
    assert step(generator, picture) == [[-5]]


def test_between_prompts_and_steps_the_model_counts_text() -> None:
    """Prompts that are continued from a cache, or prefilled in pieces, are text and count from where they are."""
    generator = Generator(Memory())
    picture = request("picture", -5)
    generator.prefill(picture, [])
    assert generator.language_model._rope_deltas.tolist() == [[0]]
    step(generator, picture)
    assert generator.language_model._rope_deltas.tolist() == [[0]]
    assert generator.language_model._position_ids is None


def test_a_prompt_that_fails_leaves_nothing_behind() -> None:
    """Whatever it had made the model remember when it failed."""
    generator = Generator(Memory())
    with pytest.raises(ValueError, match="no such image"):
        generator.prefill(request("broken", None), [])
    assert generator.language_model._rope_deltas.tolist() == [[0]]
    assert generator.language_model._position_ids is None


def test_a_step_that_outlives_the_patches_is_the_hosts_own() -> None:
    """An engine that goes on after ``disable()`` has prompts that tell the model alone, and keeps what they told."""
    memory = Memory()
    generator = Generator(memory)
    assert step(generator, request("later", -5)) == [[-7]]
    assert memory._rope_deltas.tolist() == [[-7]]


def test_steps_for_drafts_that_were_there_before_go_on_as_ever() -> None:
    """They find what the prompt left behind."""
    generator = Generator(Memory())
    vars(generator)["_step"] = lambda *args: None
    generator.prefill(request("picture", -5), [])
    assert generator.language_model._rope_deltas.tolist() == [[-5]]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_batch_that_is_not_known_is_left_alone(rows: int) -> None:
    """Steps for other rows than the batch has are the host's own business."""
    memory = Memory()
    generator = Generator(memory)
    generator.active_batch = None if rows == 1 else SimpleNamespace(requests=[request("picture", -5)])
    generator._step(mx.zeros((rows, 1)), [])
    assert generator.steps == [[[-7]]]


def test_models_without_such_positions_are_left_alone() -> None:
    """There is nothing to remember, and all arguments and results are passed on."""
    generator = Generator(object())
    generator.active_batch = SimpleNamespace(requests=[request("picture", -5)])
    assert generator.prefill(request("picture", -5)) == "logits of picture"
    assert generator._step(mx.zeros((1, 1)), [], extra="!") == "tokens!"
    assert generator.steps == [None]


class DraftingModel(Memory):
    """A language model with a head for drafts, which notes what it remembers whenever it is asked."""

    TOKENS = 4

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def __call__(self, tokens: Any, cache: Any = None, **options: Any) -> tuple[Any, Any]:
        self.asked.append(self._rope_deltas.tolist())
        return mx.zeros((*tokens.shape, self.TOKENS)), mx.zeros((*tokens.shape, 1))

    def mtp_forward(self, hidden: Any, tokens: Any, mtp_cache: Any = None) -> Any:
        return mx.zeros((*tokens.shape, self.TOKENS))


class DraftingGenerator(Generator):
    """With what the host's steps for drafts need."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.prefix_cache = None
        self.stop_tokens: set[int] = set()

    def sampler(self, logprobs: Any) -> Any:
        return mx.argmax(logprobs, axis=-1)

    def _next(self) -> list[Any]:
        return []

    @use_own_positions
    def _step(self, input_tokens: Any, cache: Any, *options: Any) -> Any:
        logits, _ = self.language_model(input_tokens, cache)
        return self.sampler(logits[:, -1, :]), list(logits[:, -1, :])


class DraftedBatch:
    """A batch as far as the host's steps for drafts look at it."""

    def __init__(self, *requests: Any) -> None:
        self.requests = list(requests)
        self.uids = [id(request) for request in requests]

    def __len__(self) -> int:
        return len(self.requests)


def test_the_hosts_steps_for_drafts_ask_with_each_requests_own_number() -> None:
    """Alone, in a batch, which some releases draft for and others do not, and when the batch has shrunk again."""
    model = DraftingModel()
    generator = DraftingGenerator(model)
    draft_with_own_positions(mllm_batch_generator.install_mtp_mllm)(generator, model, num_draft_tokens=1)
    picture, text = request("picture", -5), request("text", 0)

    def drafted(*requests: Any) -> list[Any]:
        generator.active_batch = DraftedBatch(*requests)
        model.asked.clear()
        generator._step(mx.zeros((len(requests), 1), dtype=mx.int32), [], None, None, None)
        assert model.asked, "the step asked the model"
        assert model._rope_deltas.tolist() == [[0]], "nothing is left for prompts that are prefilled in between"
        return model.asked

    generator.prefill(picture, [])
    alone = drafted(picture)
    assert len(alone) > 1, "a draft was verified"
    assert all(deltas == [[-5]] for deltas in alone)
    generator.prefill(text, [])
    assert all(deltas == [[-5], [0]] for deltas in drafted(picture, text))
    assert all(deltas == [[-5]] for deltas in drafted(picture))


def test_all_seams_are_in_one_state() -> None:
    """A host passes the positions everywhere, or nowhere."""
    assert len({patch.inspect().status for patch in responses_host_patches()}) == 1
    assert SeamStatus.DOES_NOT_FIT not in {patch.inspect().status for patch in responses_host_patches()}


def test_reverting_restores_the_host_exactly() -> None:
    """The very functions that were there are there again."""
    places = [
        *((MLLMBatchGenerator, name) for name in (PREFILL_TEXT, PREFILL_MEDIA, STEP)),
        (mllm_batch_generator, DRAFTING),
    ]
    before = [inspect.getattr_static(*place) for place in places]
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    patches.revert()
    assert [inspect.getattr_static(*place) for place in places] == before
