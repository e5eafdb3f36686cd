"""The batched engine gives the model the images, videos and audio of tool results and of calls with content.

``BatchedEngine`` renders messages as they are but collects the payloads with ``extract_multimodal_content``, which
skips tool messages, and before 0.6.0 calls with content. So the prompt has more placeholders than there are images,
or raw ``image_url`` parts in it. Our own lowering puts the images of a tool result into a user turn; clients of
``/v1/chat/completions`` put them into the tool message.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.lowering.mllm import with_all_media
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable

EXTRACT = "extract_multimodal_content"

#: Messages with text only, and the payloads: images, videos, audio.
Extracted = tuple[list[dict[str, Any]], list[Any], list[Any], list[Any]]


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    def not_needed() -> str | None:
        from vllm_mlx.engine import batched

        content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]
        call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        exchange = [
            {"role": "assistant", "content": content, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": content},
        ]
        _, images, *_ = getattr(batched, EXTRACT)(exchange)
        return "host finds images in calls and tool results" if len(images) == len(exchange) else None

    return [
        SymbolPatch(
            seam="batched images of tool messages",
            # The engine's own name for it: others get their messages from the same function.
            owner="vllm_mlx.engine.batched",
            name=EXTRACT,
            parameters=("messages", "preserve_native_format"),
            replace=find_all_media,
            remove_when="BatchedEngine collects the payloads of every message that it renders",
            not_needed=not_needed,
            defect="on the batched engine the images of tool messages do not reach the model",
        )
    ]


def find_all_media(original: Callable[..., Extracted]) -> Callable[..., Extracted]:
    """The host's extraction, which then looks for payloads once more as if every message were a plain one."""

    @wraps(original)
    def extract(messages: list[dict[str, Any]], *args: Any, **kwargs: Any) -> Extracted:
        texts, *media = original(messages, *args, **kwargs)
        plain = [with_all_media(message) for message in messages]
        if any(now is not before for now, before in zip(plain, messages, strict=True)):
            _, *media = original(plain, *args, **kwargs)
        images, videos, audio = media
        return texts, images, videos, audio

    return extract
