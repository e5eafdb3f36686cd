"""Content parts of messages and of tool outputs, as pydantic models."""

from __future__ import annotations

from typing import Literal

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


class ImageUrl(WireModel):
    """The object that the chat-completions form of an image wraps its URL in."""

    url: str


class ImagePart(Part):
    """An image: a data: or http(s) URL. Some clients wrap it in either form, and some in neither; all are read."""

    image_url: str | ImageUrl | None = None

    @property
    def url(self) -> str | None:
        return self.image_url.url if isinstance(self.image_url, ImageUrl) else self.image_url


class InputImage(ImagePart):
    """An image in the form of the Responses API."""

    type: Literal["input_image"]
    detail: Literal["auto", "low", "high", "original"] | None = None
    file_id: str | None = None


class ChatImage(ImagePart):
    """An image in the form of chat completions."""

    type: Literal["image_url"]


class InputFile(Part):
    """A file, which this server does not read."""

    type: Literal["input_file"]


class MediaPart(Part):
    """Chat-completions forms of video and audio, handed to the host unchanged."""
