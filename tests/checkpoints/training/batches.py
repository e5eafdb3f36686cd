"""Examples as padded tensors with the weight of each predicted token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.checkpoints.training import skills
from tests.checkpoints.training.pixels import MERGE, Grid, ImagePatches, draw_image
from tests.checkpoints.training.tokenizer import render_prompt
from tests.checkpoints.training.vocabulary import END_ID, FIRST_WORD_ID, IMAGE_ID, PAD_ID

#: Prompt tokens are learnt a little too: it helps the copying along.
PROMPT_WEIGHT = 0.05

#: The first answer token decides between a call, an answer and a refusal.
DECISION_WEIGHT = 3.0

#: How often a prompt that needs a tool comes together with its like without that tool.
TWIN_PROBABILITY = 0.4
POOL_SIZE = 384

IMAGE_PLACEHOLDER = "<|image_pad|>"


class Encode(Protocol):
    """Text to token ids."""

    def __call__(self, text: str) -> list[int]:
        """Encode without adding any token."""
        ...


@dataclass(frozen=True)
class EncodedExample:
    """Token ids of the prompt (images expanded) and of the answer, and the images."""

    prompt: list[int]
    answer: list[int]
    images: tuple[ImagePatches, ...]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


@dataclass(frozen=True)
class Batch:
    """One training step: `wanted` marks the places whose next token is learnt."""

    tokens: Tensor
    positions: Tensor
    wanted: Tensor
    labels: Tensor
    weights: Tensor
    patches: Tensor | None = None
    grids: Tensor | None = None


def encode_example(encode: Encode, rng: Random, example: skills.Example) -> EncodedExample:
    """Draw the images and put as many placeholders for each as it has tokens."""
    images = tuple(draw_image(rng, colour) for colour in example.colours)
    before, *rest = render_prompt(example).split(IMAGE_PLACEHOLDER)
    for image, text in zip(images, rest, strict=True):
        before += IMAGE_PLACEHOLDER * image.token_count + text
    return EncodedExample(encode(before), [*encode(example.answer), END_ID], images)


def rotary_positions(tokens: Sequence[int], grids: Sequence[Grid]) -> NDArray[np.int64]:
    """Time, height and width positions as Qwen2-VL counts them."""
    positions = np.zeros((3, len(tokens)), np.int64)
    left = iter(grids)
    place = following = 0
    while place < len(tokens):
        if tokens[place] != IMAGE_ID:
            positions[:, place] = following
            place, following = place + 1, following + 1
            continue
        height, width = (side // MERGE for side in next(left))
        span = slice(place, place + height * width)
        positions[0, span] = following
        positions[1, span] = following + np.repeat(np.arange(height), width)
        positions[2, span] = following + np.tile(np.arange(width), height)
        place, following = place + height * width, following + max(height, width)
    return positions


def build_batch(examples: Sequence[EncodedExample]) -> Batch:
    """Pad the examples to one length."""
    shape = len(examples), max(map(len, examples)) - 1
    tokens = np.full(shape, PAD_ID, np.int64)
    labels = np.full(shape, PAD_ID, np.int64)
    weights = np.zeros(shape, np.float32)
    positions = np.zeros((3, *shape), np.int64)
    images = [image for example in examples for image in example.images]
    for row, example in enumerate(examples):
        whole = example.prompt + example.answer
        length, first = len(whole) - 1, len(example.prompt) - 1
        tokens[row, :length], labels[row, :length] = whole[:-1], whole[1:]
        weights[row, :first] = PROMPT_WEIGHT
        weights[row, first:length] = 1.0
        weights[row, first] = DECISION_WEIGHT
        grids = [image.grid for image in example.images]
        positions[:, row, :length] = rotary_positions(whole[:-1], grids)
    wanted = weights > 0
    return Batch(
        torch.from_numpy(tokens),
        torch.from_numpy(positions),
        torch.from_numpy(wanted),
        torch.from_numpy(labels[wanted]),
        torch.from_numpy(weights[wanted]),
        torch.from_numpy(np.concatenate([image.rows for image in images])) if images else None,
        torch.tensor([(1, *image.grid) for image in images]) if images else None,
    )


def skill_batches(encode: Encode, rng: Random, token_budget: int) -> Iterator[Batch]:
    """Batches of all skills without end, examples of about one length together."""
    while True:
        pool: list[EncodedExample] = []
        while len(pool) < POOL_SIZE:
            example = skills.draw(rng)
            pool.append(encode_example(encode, rng, example))
            if example.needed_tool and rng.random() < TWIN_PROBABILITY:
                twin = example.without_needed_tool()
                pool.append(encode_example(encode, rng, twin))
        pool.sort(key=len)
        groups: list[list[EncodedExample]] = [[]]
        for encoded in pool:
            if groups[-1] and (len(groups[-1]) + 1) * len(encoded) > token_budget:
                groups.append([])
            groups[-1].append(encoded)
        rng.shuffle(groups)
        yield from map(build_batch, groups)


def copy_batches(encode: Encode, rng: Random, token_budget: int, vocabulary_size: int) -> Iterator[Batch]:
    """Batches of "repeat these 2 to 24 random tokens" without end.

    The skills alone copy some ten tokens a step, too few for the model ever to
    find out how to copy; this signal is dense.
    """
    start = encode("<|im_start|>user\nRepeat: ")
    middle = encode("<|im_end|>\n<|im_start|>assistant\n")
    while True:
        length = rng.randint(2, 24)
        rows = max(8, token_budget // (2 * length + len(start) + len(middle)))
        offset = rng.choice([0, 0, 0, 50, 200])
        whole = []
        for _ in range(rows):
            words = [rng.randrange(FIRST_WORD_ID, vocabulary_size) for _ in range(length)]
            whole.append([*start, *words, *middle, *words, END_ID])
        ids = torch.tensor(whole)
        tokens, targets = ids[:, :-1], ids[:, 1:]
        positions = torch.arange(tokens.shape[1]) + offset
        wanted = torch.zeros_like(tokens, dtype=torch.bool)
        wanted[:, len(start) + length + len(middle) - 1 :] = True
        labels = targets[wanted]
        yield Batch(
            tokens,
            positions.expand(3, rows, -1),
            wanted,
            labels,
            torch.ones(len(labels)),
        )
