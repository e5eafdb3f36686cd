"""What the host's multimodal ``chat`` and ``stream_chat`` hand on, found out without a model, on every release."""

from __future__ import annotations

from dataclasses import dataclass
from types import MethodType, SimpleNamespace
from typing import Any

from vllm_mlx.models.mllm import MLXMultimodalLM

Message = dict[str, Any]


@dataclass(frozen=True)
class View:
    """One rendering: the template's messages and keyword arguments, and the images and sounds that go with them."""

    messages: list[Message]
    arguments: dict[str, Any]
    images: list[str]
    sounds: list[str]


class _Rendered(BaseException):
    """The template was reached."""


def view(messages: list[Message], *, stream: bool = False, frames: int = 0, **options: Any) -> View:
    """What reaches the template; every video has ``frames`` frames."""
    seen: dict[str, Any] = {}
    images: list[str] = []
    sounds: list[str] = []

    class Processor:
        chat_template = ""

        def apply_chat_template(self, messages: list[Message], **arguments: Any) -> None:
            seen.update(messages=messages, arguments=arguments)
            raise _Rendered

    def prepare_images(urls: list[str]) -> list[str]:
        images.extend(urls)
        return urls

    def prepare_audio(urls: list[str]) -> list[str]:
        sounds.extend(urls)
        return urls

    model = SimpleNamespace(
        processor=Processor(),
        _loaded=True,
        _video_native=False,
        _video_native_with_audio=False,
        _prepare_images=prepare_images,
        _prepare_audio=prepare_audio,
        _prepare_video=lambda video, **options: ["frame"] * frames,
    )
    model._collect_video_inputs = MethodType(MLXMultimodalLM._collect_video_inputs, model)
    model._collect_audio_inputs = MethodType(MLXMultimodalLM._collect_audio_inputs, model)
    chat = MLXMultimodalLM.stream_chat if stream else MLXMultimodalLM.chat
    try:
        list(chat(model, messages, **options))
    except _Rendered:
        return View(seen["messages"], seen["arguments"], images, sounds)
    raise AssertionError("the template was not reached")
