"""The native video route of the host: the tool exchange kept, and what the request says to the template passed on.

A request with a video for a model that takes videos as they are has a route of its own through ``MLXMultimodalLM``.
There messages are rebuilt with role and content only, and ``enable_thinking`` and ``chat_template_kwargs`` of the
request get lost. Needs an mlx-vlm that has ``mlx_vlm.video_generate``, as the route itself does.
"""

from __future__ import annotations

import inspect
from functools import partial, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.lowering.mllm import keeps_tool_exchange, kept
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MODEL_CLASS = "vllm_mlx.models.mllm:MLXMultimodalLM"
TRANSLATE = "_translate_messages_for_native_video"
PREPARE = "_prepare_native_video_inputs"

Messages = list[dict[str, Any]]


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    def translate(messages: Messages) -> Messages:
        from vllm_mlx.models import mllm

        # Text alone is translated without the model, so any object does for self.
        translated: Messages = getattr(mllm.MLXMultimodalLM, TRANSLATE)(
            SimpleNamespace(), messages, mllm.DEFAULT_FPS, mllm.MAX_FRAMES
        )
        return translated

    def translation_not_needed() -> str | None:
        return "host keeps tool_calls and tool_call_id" if keeps_tool_exchange(translate) else None

    def arguments_not_needed() -> str | None:
        from vllm_mlx.models.mllm import MLXMultimodalLM

        # What the function does with them cannot be tried: all it does is behind an import of mlx_vlm.video_generate,
        # which today's mlx-vlm has not. So its signature has to do. A host that takes them in another way is patched
        # without harm: what it says to the template itself wins.
        takes_them = "chat_template_kwargs" in inspect.signature(getattr(MLXMultimodalLM, PREPARE)).parameters
        return "host takes template arguments there" if takes_them else None

    def template_arguments(seam: str, name: str, replace: Callable[..., Any]) -> SymbolPatch:
        return SymbolPatch(
            seam=f"native video, template arguments{seam}",
            owner=MODEL_CLASS,
            name=name,
            parameters=("self", "messages"),
            replace=replace,
            remove_when="the host's native video route takes enable_thinking and chat_template_kwargs",
            not_needed=arguments_not_needed,
            defect="on the native video route enable_thinking and chat_template_kwargs do not reach the template",
        )

    return [
        SymbolPatch(
            seam="native video, messages",
            owner=MODEL_CLASS,
            name=TRANSLATE,
            parameters=("self", "messages", "video_fps", "video_max_frames"),
            replace=keep_tool_exchange,
            remove_when="the host's native video route keeps tool_calls and tool_call_id",
            not_needed=translation_not_needed,
            defect="on the native video route the model does not see tool calls and which results answer them",
        ),
        template_arguments("", "chat", note_template_arguments),
        template_arguments(", streamed", "stream_chat", note_template_arguments),
        template_arguments(", rendered", PREPARE, use_template_arguments),
    ]


def keep_tool_exchange(original: Callable[..., Messages]) -> Callable[..., Messages]:
    """The host's translation, one message at a time, so that what it drops is put back in its place."""

    @wraps(original)
    def translate(self: Any, messages: Messages, video_fps: float, video_max_frames: int) -> Messages:
        one = partial(original, self, video_fps=video_fps, video_max_frames=video_max_frames)
        return [entry for message in messages for entry in kept(message, one)]

    return translate


class _Conversation(list[dict[str, Any]]):
    """Messages that bring along the template arguments of their request: the route hands on the very same list."""

    def __init__(self, messages: Iterable[dict[str, Any]], arguments: Mapping[str, Any]) -> None:
        super().__init__(messages)
        self.template_arguments = arguments


def note_template_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """``chat`` or ``stream_chat``, with what the request says to the template noted before the host takes it out."""

    @wraps(original)
    def chat(self: Any, messages: Messages, *args: Any, **kwargs: Any) -> Any:
        named = {name: kwargs[name] for name in ("enable_thinking",) if kwargs.get(name) is not None}
        arguments = {**named, **(kwargs.get("chat_template_kwargs") or {})}
        return original(self, _Conversation(messages, arguments) if arguments else messages, *args, **kwargs)

    return chat


def use_template_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """The preparation of the route's prompt, with the noted arguments for its template."""

    @wraps(original)
    def prepare(self: Any, messages: Messages, *args: Any, **kwargs: Any) -> Any:
        if isinstance(messages, _Conversation):
            self = _Overlay(self, processor=_Processor(self.processor, messages.template_arguments))
        return original(self, messages, *args, **kwargs)

    return prepare


class _Overlay:
    """An object with some of its attributes replaced, for one call."""

    def __init__(self, base: Any, **attributes: Any) -> None:
        self._base = base
        vars(self).update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


class _Processor(_Overlay):
    """A processor whose template gets more arguments."""

    def __init__(self, processor: Any, arguments: Mapping[str, Any]) -> None:
        super().__init__(processor)
        self._arguments = arguments

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._base(*args, **kwargs)

    def apply_chat_template(self, messages: Messages, **kwargs: Any) -> Any:
        return self._base.apply_chat_template(messages, **{**self._arguments, **kwargs})
