"""Train the tiny model from nothing: first to copy, then the skills.

    python -m tests.checkpoints.training.train OUT [--skill-steps N] [--threads N]

The run is counted in steps, not in time, so that a seed gives the same model on
the same machine and library versions.
"""

import argparse
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from tests.checkpoints.training.batches import Batch, copy_batches, skill_batches
from tests.checkpoints.training.model import TinyVisionModel, write_configuration
from tests.checkpoints.training.tokenizer import write_tokenizer

PROGRESS_EVERY = 50
WARM_UP = 60

#: Copying is learnt when this share of copied tokens was right over the last steps.
COPY_GOAL = 0.98

#: While learning skills, one step of so many still is a copying step.
COPY_EVERY = 8

#: The learning rate stays up for this share of the skill steps, then falls to almost 0.
DECAY_FROM = 0.4


def say(line: str) -> None:
    """Print a line now."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Trainer:
    """The model, its optimiser, and the running averages for the progress lines."""

    def __init__(self, model: TinyVisionModel, learning_rate: float) -> None:
        """Prepare the optimiser: no decay and a low rate for the embeddings.

        They are also the output layer, and at the full rate the noise of the
        softmax makes rare words alike: copying them is then never learnt.
        """
        self.model = model
        self.learning_rate = learning_rate
        named = list(model.named_parameters())
        embeddings = [weight for name, weight in named if "embed_tokens" in name]
        others = [weight for name, weight in named if "embed_tokens" not in name]
        matrices = [weight for weight in others if weight.ndim >= 2]
        vectors = [weight for weight in others if weight.ndim < 2]
        self.optimiser = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": 0.05, "scale": 1.0},
                {"params": vectors, "weight_decay": 0.0, "scale": 1.0},
                {"params": embeddings, "weight_decay": 0.0, "scale": 0.15},
            ],
            lr=learning_rate,
            betas=(0.9, 0.98),
        )
        self.started = time.monotonic()
        self.losses: deque[float] = deque(maxlen=PROGRESS_EVERY)
        self.hits: deque[float] = deque(maxlen=PROGRESS_EVERY)

    def step(self, batch: Batch, rate: float) -> None:
        """Learn one batch at this share of the learning rate."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate * group["scale"] * rate
        logits = self.model(batch.tokens, batch.positions, batch.wanted, batch.patches, batch.grids)
        each = functional.cross_entropy(logits, batch.labels, reduction="none")
        loss = (each * batch.weights).sum() / batch.weights.sum()
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.losses.append(loss.item())
        answers = batch.weights >= 1
        right = (logits.argmax(-1) == batch.labels)[answers].float().mean()
        self.hits.append(right.item())

    @property
    def hit_rate(self) -> float:
        """The share of answer tokens predicted rightly of late."""
        return sum(self.hits) / max(1, len(self.hits))

    def report(self, stage: str, step: int, steps: int) -> None:
        """Print a progress line."""
        loss = sum(self.losses) / max(1, len(self.losses))
        seconds = time.monotonic() - self.started
        say(f"{stage} {step}/{steps}  loss {loss:.4f}  tokens right {self.hit_rate:.4f}  {seconds:.0f} s")


def warm_up(step: int) -> float:
    """Rise to 1 over the first steps."""
    return min(1.0, (step + 1) / WARM_UP)


def rise_and_fall(step: int, steps: int) -> float:
    """Rise to 1, stay there, then fall in a straight line to almost nothing."""
    falling = (1 - step / steps) / (1 - DECAY_FROM)
    return warm_up(step) * max(0.01, min(1.0, falling))


def learn_copying(trainer: Trainer, batches: Iterator[Batch], steps: int) -> None:
    """Repeat random tokens until that works."""
    for step in range(steps):
        trainer.step(next(batches), warm_up(step))
        if (step + 1) % PROGRESS_EVERY == 0:
            trainer.report("copy", step + 1, steps)
            if trainer.hit_rate > COPY_GOAL:
                return


def learn_skills(
    trainer: Trainer,
    skill: Iterator[Batch],
    copying: Iterator[Batch],
    steps: int,
    save: Callable[[], None],
) -> None:
    """Learn the skills, with some copying in between."""
    for step in range(steps):
        batch = next(copying if step % COPY_EVERY == COPY_EVERY - 1 else skill)
        trainer.step(batch, rise_and_fall(step, steps))
        if (step + 1) % PROGRESS_EVERY == 0:
            trainer.report("skill", step + 1, steps)
        if (step + 1) % (20 * PROGRESS_EVERY) == 0:
            save()


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("output", type=Path, help="the directory of the new checkpoint")
    parser.add_argument("--skill-steps", type=int, default=6000)
    parser.add_argument("--copy-steps", type=int, default=2000, help="at most so many")
    parser.add_argument("--batch-tokens", type=int, default=2000)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="start from this checkpoint's tokenizer and weights")
    return parser.parse_args()


def main() -> None:
    """Write the tokenizer, train, and write the weights."""
    arguments = parse_arguments()
    output: Path = arguments.output
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    rng = random.Random(arguments.seed)

    write_configuration(output, write_tokenizer(output))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(output)
    model = TinyVisionModel(output)
    if arguments.resume is not None:
        model.load_weights(arguments.resume)
    say(f"{sum(weight.numel() for weight in model.parameters())} parameters")

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    model.train()
    trainer = Trainer(model, arguments.learning_rate)
    copying = copy_batches(encode, rng, arguments.batch_tokens, len(tokenizer))
    skill = skill_batches(encode, rng, arguments.batch_tokens)
    learn_copying(trainer, copying, arguments.copy_steps)
    learn_skills(trainer, skill, copying, arguments.skill_steps, lambda: model.save_weights(output))
    model.save_weights(output)


if __name__ == "__main__":
    main()
