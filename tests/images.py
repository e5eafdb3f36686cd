"""Images of the tiny model's colours, as bytes and as data URLs."""

from __future__ import annotations

import base64
import io
from typing import Literal

from PIL import Image

ImageFormat = Literal["PNG", "JPEG", "WEBP", "GIF"]

#: The eight colours that the tiny model knows.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 30, 35),
    "green": (30, 165, 55),
    "blue": (30, 60, 215),
    "yellow": (240, 220, 40),
    "black": (15, 15, 15),
    "white": (242, 242, 242),
    "orange": (245, 140, 25),
    "purple": (130, 35, 150),
}

#: A square image of any size is this many tokens to the tiny model, start and end marks included.
TOKENS_PER_SQUARE_IMAGE = 6


def image_bytes(colour: str, image_format: ImageFormat = "PNG", size: tuple[int, int] = (64, 64)) -> bytes:
    """An image file of one colour. Other sizes of one colour are other bytes, which no cache can mix up."""
    buffer = io.BytesIO()
    Image.new("RGB", size, COLOURS[colour]).save(buffer, image_format)
    return buffer.getvalue()


def data_url(colour: str, image_format: ImageFormat = "PNG", size: tuple[int, int] = (64, 64)) -> str:
    """The same as a ``data:`` URL."""
    encoded = base64.b64encode(image_bytes(colour, image_format, size)).decode()
    return f"data:image/{image_format.lower()};base64,{encoded}"
