"""Tool results as text, for engines that read nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from responses_plugin.lowering.items import IMAGE_NOT_SHOWN

_MEDIA_NOT_SHOWN = "[The tool returned {}; it was not passed on because this model reads text only]"
_IMAGE_TYPES = ("image_url", "image", "input_image")


def as_tool_text(content: list[Any]) -> str:
    """The text of a tool message's parts, with a line for every part that is not text."""
    return "\n".join(map(_part_text, content))


def _part_text(part: Any) -> str:
    if hasattr(part, "model_dump"):
        part = part.model_dump(exclude_none=True)
    if not isinstance(part, Mapping):
        return str(part)
    if isinstance(text := part.get("text"), str):
        return text
    if part.get("type") in _IMAGE_TYPES:
        return IMAGE_NOT_SHOWN
    return _MEDIA_NOT_SHOWN.format(f"a part of type {part.get('type')!r}")
