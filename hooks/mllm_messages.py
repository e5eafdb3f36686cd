"""The second seam: chat messages → what multimodal engines and templates get, the tool exchange kept.

The message form itself is :mod:`responses_plugin.lowering.mllm`. The patches are for the places where the host then
rebuilds messages with role and content only, so that the model sees neither its call nor what the result answers and
calls again. They serve ``/v1/chat/completions`` as well.
"""

from __future__ import annotations

from functools import partial, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.lowering.mllm import build_mllm_message, keeps_tool_exchange, restore_tool_exchange
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from responses_plugin.lowering.mllm import Builder

CHAT_MESSAGES = "_build_mllm_chat_messages"
NATIVE_VIDEO = "_translate_messages_for_native_video"

Messages = list[dict[str, Any]]


@hookimpl(trylast=True)
def responses_build_mllm_message(message: Mapping[str, Any]) -> dict[str, Any]:
    return build_mllm_message(message)


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    from vllm_mlx.models import mllm

    def chat_messages(messages: Messages) -> Messages:
        built: Messages = getattr(mllm, CHAT_MESSAGES)(messages, all_image_urls=[], video_frame_counts={})
        return built

    def native_video(messages: Messages) -> Messages:
        # Text alone is translated without the model, so any object does for self.
        translate = getattr(mllm.MLXMultimodalLM, NATIVE_VIDEO)
        translated: Messages = translate(SimpleNamespace(), messages, mllm.DEFAULT_FPS, mllm.MAX_FRAMES)
        return translated

    return [
        SymbolPatch(
            seam="MLLM messages",
            owner=mllm,
            name=CHAT_MESSAGES,
            parameters=("messages", "all_image_urls", "video_frame_counts"),
            replace=keep_in_chat_messages,
            remove_when="no supported release drops tool_calls here; those up to 0.6.0 that have it keep them (#608)",
            not_needed=partial(_why_not_needed, chat_messages),
        ),
        SymbolPatch(
            seam="MLLM messages with native video",
            owner=mllm.MLXMultimodalLM,
            name=NATIVE_VIDEO,
            parameters=("self", "messages", "video_fps", "video_max_frames"),
            replace=keep_in_native_video,
            remove_when="the host's native video route keeps tool_calls and tool_call_id",
            not_needed=partial(_why_not_needed, native_video),
        ),
    ]


def keep_in_chat_messages(original: Callable[..., Messages]) -> Callable[..., Messages]:
    """The host's message builder, one message at a time, so that what it drops is put back in its place."""

    @wraps(original)
    def build(messages: Messages, *, all_image_urls: list[str], video_frame_counts: dict[int, int]) -> Messages:
        built: Messages = []
        for index, message in enumerate(messages):
            frames = {0: video_frame_counts.get(index, 0)}
            built += _kept(message, partial(original, all_image_urls=all_image_urls, video_frame_counts=frames))
        return built

    return build


def keep_in_native_video(original: Callable[..., Messages]) -> Callable[..., Messages]:
    """The host's translation for its native video route, one message at a time."""

    @wraps(original)
    def translate(self: Any, messages: Messages, video_fps: float, video_max_frames: int) -> Messages:
        one = partial(original, self, video_fps=video_fps, video_max_frames=video_max_frames)
        return [kept for message in messages for kept in _kept(message, one)]

    return translate


def _kept(message: Mapping[str, Any], build: Builder) -> Messages:
    ready = build_mllm_message(message)
    return restore_tool_exchange(ready, build([ready]))


def _why_not_needed(build: Builder) -> str | None:
    return "host already keeps tool_calls and tool_call_id" if keeps_tool_exchange(build) else None
