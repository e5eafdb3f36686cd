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
    from types import ModuleType

    from responses_plugin.lowering.mllm import Builder

BUILDER = "_build_mllm_chat_messages"

_SEAM = "MLLM messages"
_REMOVE_WHEN = "no supported release drops tool_calls there: from 0.4.0 on the host keeps them (#608)"

Messages = list[dict[str, Any]]


@hookimpl(trylast=True)
def responses_build_mllm_message(message: Mapping[str, Any]) -> dict[str, Any]:
    return build_mllm_message(message)


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    from vllm_mlx.models import mllm

    return _builder_patches(mllm) if hasattr(mllm, BUILDER) else _loop_patches(mllm)


def _builder_patches(mllm: ModuleType) -> list[SymbolPatch]:
    def build(messages: Messages) -> Messages:
        built: Messages = getattr(mllm, BUILDER)(messages, all_image_urls=[], video_frame_counts={})
        return built

    return [
        SymbolPatch(
            seam=_SEAM,
            owner=mllm,
            name=BUILDER,
            parameters=("messages", "all_image_urls", "video_frame_counts"),
            replace=keep_tool_exchange,
            remove_when=_REMOVE_WHEN,
            not_needed=partial(_why_not_needed, build),
        )
    ]


def _loop_patches(mllm: ModuleType) -> list[SymbolPatch]:
    from mlx_vlm import prompt_utils

    def loop_patch(seam: str, name: str) -> SymbolPatch:
        loop = partial(_messages_of_chat, getattr(mllm.MLXMultimodalLM, name))
        return SymbolPatch(
            seam=seam,
            owner=mllm.MLXMultimodalLM,
            name=name,
            parameters=("self", "messages"),
            replace=give_stand_ins,
            remove_when=_REMOVE_WHEN,
            not_needed=partial(_why_not_needed, loop),
        )

    return [
        loop_patch(_SEAM, "chat"),
        loop_patch(f"{_SEAM}, streamed", "stream_chat"),
        # Does nothing where there are no stand-ins, so nobody needs to ask.
        SymbolPatch(
            seam=f"{_SEAM}, rendered",
            owner=prompt_utils,
            name="get_chat_template",
            parameters=("processor", "messages", "add_generation_prompt"),
            replace=take_stand_ins_back,
            remove_when=_REMOVE_WHEN,
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
