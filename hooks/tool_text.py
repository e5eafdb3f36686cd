"""Text engines get a tool result as text, also where a client sent it as parts.

The host joins the text parts of every other message, but puts the parts of a tool message into the prompt as the
Python representation of its own objects, with the base64 of images in full. Our own lowering sends text; clients of
``/v1/chat/completions`` may not.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.lowering.tool_text import as_tool_text
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXTRACT = "extract_multimodal_content"


@hookimpl(trylast=True)
def responses_host_patches(host: Any) -> list[SymbolPatch]:
    def not_needed() -> str | None:
        message = {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sunny"}]}
        ((native, *_), *_), ((plain, *_), *_) = (
            getattr(host.server, EXTRACT)([message], preserve_native_format=native) for native in (True, False)
        )
        is_text = native["content"] == "sunny" and plain["content"].endswith(": sunny")
        return "host makes text of the parts of tool messages" if is_text else None

    return [
        SymbolPatch(
            seam="tool messages as text",
            # The chat handler's own name for it, which it calls for text engines only.
            owner=host.server,
            name=EXTRACT,
            parameters=("messages", "preserve_native_format"),
            replace=flatten_tool_messages,
            remove_when="extract_multimodal_content makes text of the parts of tool messages, as of all others",
            not_needed=not_needed,
            defect="text engines get a tool message that was sent as parts as Python objects",
        )
    ]


def flatten_tool_messages(original: Callable[..., Any]) -> Callable[..., Any]:
    """The host's extraction, given tool messages whose content is text."""

    @wraps(original)
    def extract(messages: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return original([_flattened(message) for message in messages], *args, **kwargs)

    return extract


def _flattened(message: Any) -> Any:
    """The message itself, a mapping or an object of the host's, unless it is a tool message with parts."""
    fields = message if isinstance(message, dict) else vars(message)
    if fields.get("role") != "tool" or not isinstance(fields.get("content"), list):
        return message
    return {**fields, "content": as_tool_text(fields["content"])}
