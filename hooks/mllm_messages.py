"""The second seam: chat messages → what multimodal engines and templates get, the tool exchange kept.

The message form itself is :mod:`responses_plugin.lowering.mllm`. The patches are for hosts that then rebuild messages
with role and content only, so that the model sees neither its call nor what the result answers and calls again. They
serve ``/v1/chat/completions`` as well.

Where a host builds the messages differs. From release 0.4.0 on one function does; before, ``chat`` and
``stream_chat`` of ``MLXMultimodalLM`` each do it in a loop of their own. There the messages that would be spoilt go
through the loop as stand-ins, which are replaced when the template is about to be rendered.
"""

from __future__ import annotations

from functools import partial, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.lowering.mllm import (
    build_mllm_message,
    keeps_tool_exchange,
    kept,
    replace_stand_ins,
    stand_in,
)
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from responses_plugin.lowering.mllm import Builder

MODULE = "vllm_mlx.models.mllm"
BUILDER = "_build_mllm_chat_messages"

_SEAM = "MLLM messages"
_DEFECT = "multimodal models do not see tool calls and which results answer them"
_REMOVE_WHEN = "no supported release drops tool_calls there: from 0.4.0 on the host keeps them (#608)"

Messages = list[dict[str, Any]]


@hookimpl(trylast=True)
def responses_build_mllm_message(message: Mapping[str, Any]) -> dict[str, Any]:
    return build_mllm_message(message)


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    return _builder_patches() if _has_builder() else _loop_patches()


def _has_builder() -> bool:
    try:
        from vllm_mlx.models import mllm
    except Exception:  # noqa: BLE001 - then the one patch for it says what is wrong
        return True
    return hasattr(mllm, BUILDER)


def _builder_patches() -> list[SymbolPatch]:
    def build(messages: Messages) -> Messages:
        from vllm_mlx.models import mllm

        built: Messages = getattr(mllm, BUILDER)(messages, all_image_urls=[], video_frame_counts={})
        return built

    return [
        SymbolPatch(
            seam=_SEAM,
            owner=MODULE,
            name=BUILDER,
            parameters=("messages", "all_image_urls", "video_frame_counts"),
            replace=keep_tool_exchange,
            remove_when=_REMOVE_WHEN,
            not_needed=partial(_why_not_needed, build),
            defect=_DEFECT,
        )
    ]


def _loop_patches() -> list[SymbolPatch]:
    def loop_patch(seam: str, name: str) -> SymbolPatch:
        def loop(messages: Messages) -> Messages:
            from vllm_mlx.models import mllm

            return _messages_of_chat(getattr(mllm.MLXMultimodalLM, name), messages)

        return SymbolPatch(
            seam=seam,
            owner=f"{MODULE}:MLXMultimodalLM",
            name=name,
            parameters=("self", "messages"),
            replace=give_stand_ins,
            remove_when=_REMOVE_WHEN,
            not_needed=partial(_why_not_needed, loop),
            defect=_DEFECT,
        )

    return [
        loop_patch(_SEAM, "chat"),
        loop_patch(f"{_SEAM}, streamed", "stream_chat"),
        # Does nothing where there are no stand-ins, so nobody needs to ask.
        SymbolPatch(
            seam=f"{_SEAM}, rendered",
            owner="mlx_vlm.prompt_utils",
            name="get_chat_template",
            parameters=("processor", "messages", "add_generation_prompt"),
            replace=take_stand_ins_back,
            remove_when=_REMOVE_WHEN,
            defect=_DEFECT,
        ),
    ]


def _why_not_needed(build: Builder) -> str | None:
    return "host keeps tool_calls and tool_call_id" if keeps_tool_exchange(build) else None


# --- A builder ---------------------------------------------------------------------------------------------------


def keep_tool_exchange(original: Callable[..., Messages]) -> Callable[..., Messages]:
    """The host's message builder, one message at a time, so that what it drops is put back in its place."""

    @wraps(original)
    def build(messages: Messages, *, all_image_urls: list[str], video_frame_counts: dict[int, int]) -> Messages:
        built: Messages = []
        for index, message in enumerate(messages):
            frames = {0: video_frame_counts.get(index, 0)}
            built += kept(message, partial(original, all_image_urls=all_image_urls, video_frame_counts=frames))
        return built

    return build


# --- Loops -------------------------------------------------------------------------------------------------------


def give_stand_ins(original: Callable[..., Any]) -> Callable[..., Any]:
    """``chat`` or ``stream_chat``, given stand-ins for the messages that its loop would spoil."""

    @wraps(original)
    def chat(self: Any, messages: Messages, *args: Any, **kwargs: Any) -> Any:
        # The native video route renders its messages itself; see native_video.
        is_native_video = self._video_native and self._collect_video_inputs(messages)
        given = messages if is_native_video else [stand_in(message) for message in messages]
        return original(self, given, *args, **kwargs)

    return chat


def take_stand_ins_back(original: Callable[..., Any]) -> Callable[..., Any]:
    """mlx-vlm's ``get_chat_template``, given what the stand-ins stood for."""

    @wraps(original)
    def get_chat_template(processor: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
            messages = replace_stand_ins(messages)
        return original(processor, messages, *args, **kwargs)

    return get_chat_template


class _RenderedError(BaseException):
    """Ends a trial run of ``chat`` at its template; not an ``Exception``, for which the host has a way out."""


class _Template:
    """A processor with a template that takes note of its messages instead of rendering them."""

    chat_template = ""

    def __init__(self) -> None:
        self.messages: Messages = []

    def apply_chat_template(self, messages: Messages, **kwargs: Any) -> None:
        self.messages = messages
        raise _RenderedError


def _messages_of_chat(chat: Callable[..., Any], messages: Messages) -> Messages:
    """What the template gets from ``chat`` or ``stream_chat``, found out without a model."""
    template = _Template()
    model = SimpleNamespace(
        processor=template,
        _loaded=True,
        _video_native=False,
        _collect_video_inputs=lambda messages: {},
        _collect_audio_inputs=lambda messages: {},
    )
    try:
        list(chat(model, messages))
    except _RenderedError:
        return template.messages
    raise RuntimeError(f"{chat.__qualname__} rendered no template")
