"""Measure how often the model is exactly right, skill by skill, on prompts it has not seen.

    python -m tests.checkpoints.training.evaluate CHECKPOINT [--samples N]

The checkpoint runs through mlx-vlm with its real image processor, as the host runs it. An answer counts when every
token of it, the end included, is the most likely one after the right tokens before it; then generation at temperature
0 gives exactly this answer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_vlm import load
from mlx_vlm.utils import prepare_inputs
from PIL import Image

from tests.checkpoints.training import skills
from tests.checkpoints.training.pixels import draw_pixels
from tests.checkpoints.training.vocabulary import END_ID

SEED = 999
#: Height and width of the images; the image processor scales them.
IMAGE_SIZES = ((64, 64), (56, 56), (224, 224), (32, 32), (480, 640), (200, 100))


class Evaluator:
    """A loaded checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self.model, self.processor = load(str(checkpoint))

    def answer(self, example: skills.Example, images: list[Image.Image]) -> tuple[list[int], list[int]]:
        """The tokens of the right answer, and the most likely token at each of these places."""
        tokenizer = self.processor.tokenizer
        prompt = tokenizer.apply_chat_template(
            list(example.messages), tools=list(example.tools) or None, tokenize=False, add_generation_prompt=True
        )
        inputs: dict[str, Any] = prepare_inputs(self.processor, images=images or None, prompts=prompt)
        right = [*tokenizer.encode(example.answer, add_special_tokens=False), END_ID]
        tokens = mx.concatenate([inputs["input_ids"], mx.array([right])], axis=1)
        grids = {name: value for name, value in inputs.items() if name == "image_grid_thw"}
        features = self.model.get_input_embeddings(tokens, inputs.get("pixel_values"), **grids)
        logits = self.model.language_model(
            tokens, features.inputs_embeds, position_ids=features.position_ids, **grids
        ).logits
        predicted = np.array(mx.argmax(logits[0, -len(right) - 1 : -1], -1))
        return right, [int(token) for token in predicted]

    def decode(self, tokens: list[int]) -> str:
        """The text of these tokens."""
        text: str = self.processor.tokenizer.decode(tokens)
        return text


def evaluate_skill(evaluator: Evaluator, name: str, samples: int, misses_shown: int) -> int:
    """Print the skill's line and its first misses; return the number of right answers."""
    rng = Random(f"{SEED} {name}")
    right_answers = 0
    misses: list[str] = []
    for _ in range(samples):
        example = skills.draw(rng, name)
        images = [Image.fromarray(draw_pixels(rng, colour, *rng.choice(IMAGE_SIZES))) for colour in example.colours]
        right, predicted = evaluator.answer(example, images)
        if right == predicted:
            right_answers += 1
        else:
            misses.append(f"    {evaluator.decode(right)!r}\n    {evaluator.decode(predicted)!r}\n")
    sys.stdout.write(f"{name:26} {right_answers}/{samples}\n" + "".join(misses[:misses_shown]))
    sys.stdout.flush()
    return right_answers


def main() -> None:
    """Evaluate every skill."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--samples", type=int, default=100, help="prompts a skill (default: 100)")
    parser.add_argument("--misses", type=int, default=1, help="wrong answers to show a skill (default: 1)")
    parser.add_argument("--skill", choices=list(skills.SKILLS), help="only this one")
    arguments = parser.parse_args()
    evaluator = Evaluator(arguments.checkpoint)
    names = [arguments.skill] if arguments.skill else list(skills.SKILLS)
    right = sum(evaluate_skill(evaluator, name, arguments.samples, arguments.misses) for name in names)
    sys.stdout.write(f"{'all':26} {right}/{len(names) * arguments.samples}\n")


if __name__ == "__main__":
    main()
