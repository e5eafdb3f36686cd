"""Chat messages: what items are lowered to, in the public chat-completions shape.

Plain JSON objects on purpose: every plugin author knows the shape, snapshots are readable, and the host takes them
as they are.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

#: ``{"type": "text", "text": …}``, ``{"type": "image_url", "image_url": {"url": …}}`` and the like.
ChatPart = dict[str, Any]


class ChatFunction(TypedDict):
    name: str
    #: The JSON text the client or the model wrote, byte for byte.
    arguments: str


class ChatToolCall(TypedDict):
    id: str
    type: Literal["function"]
    function: ChatFunction


class ChatMessage(TypedDict, total=False):
    """``role`` and ``content`` are always present."""

    role: str
    content: str | list[ChatPart]
    reasoning_content: str
    tool_calls: list[ChatToolCall]
    tool_call_id: str


def text_part(text: str) -> ChatPart:
    return {"type": "text", "text": text}


def is_image(part: ChatPart) -> bool:
    return bool(part["type"] == "image_url")


def compact(parts: list[ChatPart]) -> str | list[ChatPart]:
    """Content in its simplest form: a string when there is nothing but text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def parts_of(message: ChatMessage) -> list[ChatPart]:
    """The content of a message as parts, in a list of its own; there are none of an empty string."""
    content = message["content"]
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return list(content)


def with_parts(message: ChatMessage) -> ChatMessage:
    """The message with its content as a list of parts."""
    return {**message, "content": parts_of(message)}


def assistant_text(text: str) -> ChatMessage:
    return {"role": "assistant", "content": text}


def assistant_call(call_id: str, name: str, arguments: str) -> ChatMessage:
    """An assistant message that holds one call."""
    call: ChatToolCall = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def user_text(text: str) -> ChatMessage:
    return {"role": "user", "content": text}


def note(label: str, text: str) -> ChatMessage:
    """A user turn that holds something no chat role fits, under a label that says what it is."""
    return user_text(f"[{label}]\n{text}")
