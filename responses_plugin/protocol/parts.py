"""Content parts of messages and of tool outputs, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from responses_plugin.protocol.wire import WireModel


class Part(WireModel):
    """One content part; the base of every kind and the form of an unknown one."""

    type: str


class TextPart(Part):
    """``input_text``, ``output_text``, ``summary_text``, ``reasoning_text`` and the chat form ``text``."""

    text: str


class RefusalPart(Part):
    """What a model refused to do, replayed by the client."""

    type: Literal["refusal"]
    refusal: str


class InputImage(Part):
    """An image: a data: or http(s) URL. Some clients wrap the URL as ``{"url": …}``; both are read."""

    type: Literal["input_image"]
    image_url: str | dict[str, Any] | None = None
    detail: Literal["auto", "low", "high", "original"] | None = None
    file_id: str | None = None


class ChatImage(Part):
    """The chat-completions form of an image."""

    type: Literal["image_url"]
    image_url: str | dict[str, Any]


class InputFile(Part):
    """A file, which this server does not read."""

    type: Literal["input_file"]


class MediaPart(Part):
    """Chat-completions forms of video and audio, handed to the host unchanged."""
