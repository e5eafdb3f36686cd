"""Synthetic images, directly as the patches that Qwen2-VL's vision tower reads.

The image processor scales an image so that both sides are multiples of 28 pixels
and their product is about 56 x 56: a square image always becomes 56 x 56. Only
that scaled form is drawn here, so that training needs no image processor.
"""

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from tests.checkpoints.training.vocabulary import COLOURS

PATCH = 14
MERGE = 2
TEMPORAL = 2
IMAGE_AREA = 56 * 56

#: Patches down and across; both even.
Grid = tuple[int, int]

SQUARE: Grid = (4, 4)
OBLONG: tuple[Grid, ...] = ((2, 4), (4, 2), (2, 6), (6, 2), (4, 6), (6, 4))


@dataclass(frozen=True)
class ImagePatches:
    """One image: a row of pixels for each patch, and the grid they came from."""

    rows: NDArray[np.float32]
    grid: Grid

    @property
    def token_count(self) -> int:
        """How many tokens stand for the image in the prompt."""
        return self.grid[0] * self.grid[1] // MERGE**2


def draw_image(rng: Random, colour: str) -> ImagePatches:
    """An image of this colour, square or not."""
    grid = SQUARE if rng.random() < 0.6 else rng.choice(OBLONG)
    return ImagePatches(to_patches(draw_pixels(rng, colour, grid[0] * PATCH, grid[1] * PATCH)), grid)


def draw_pixels(rng: Random, colour: str, height: int, width: int) -> NDArray[np.uint8]:
    """Pixels that are mostly of this colour: noise, and at times a smaller rectangle of another."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    base = np.array(COLOURS[colour]) + noise.integers(-16, 17, 3)
    pixels = np.broadcast_to(base, (height, width, 3)).astype(np.float64)
    if rng.random() < 0.3:
        other = COLOURS[rng.choice([name for name in COLOURS if name != colour])]
        box_height, box_width = (int(side * rng.uniform(0.2, 0.5)) for side in (height, width))
        top, left = rng.randint(0, height - box_height), rng.randint(0, width - box_width)
        pixels[top : top + box_height, left : left + box_width] = other
    pixels += noise.normal(0, rng.choice([0, 0, 4, 10]), pixels.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def to_patches(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Cut a scaled RGB image into rows as Qwen2-VL's image processor orders them."""
    height, width, channels = pixels.shape
    down, across = height // (PATCH * MERGE), width // (PATCH * MERGE)
    scaled = (pixels.astype(np.float32) / 255 - 0.5) / 0.5
    blocks = scaled.reshape(down, MERGE, PATCH, across, MERGE, PATCH, channels)
    ordered = blocks.transpose(0, 3, 1, 4, 6, 2, 5)
    frames = np.broadcast_to(ordered[..., None, :, :], (*ordered.shape[:5], TEMPORAL, PATCH, PATCH))
    return np.ascontiguousarray(frames).reshape(down * across * MERGE**2, -1)
