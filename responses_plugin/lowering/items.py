"""One item → chat messages. What belongs together is merged afterwards; see ``assemble``."""

from __future__ import annotations

from responses_plugin.context import RequestContext
from responses_plugin.kinds.base import ToolKind
from responses_plugin.lowering.messages import (
    ChatMessage,
    ChatPart,
    assistant_call,
    compact,
    is_image,
)
from responses_plugin.lowering.notes import lower_other_item
from responses_plugin.lowering.parts import UNKNOWN, as_json, lower_part, lower_parts
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.items import Item, Message, Reasoning, ToolCall, ToolOutput
from responses_plugin.protocol.parts import Part, TextPart
from responses_plugin.protocol.sealed import unseal

#: Ends the text of a tool message whose images follow in a user turn; templates render images in user turns only.
IMAGE_FOLLOWS = "[Image output attached in the next message]"
#: Stands for images of a tool output on an engine without vision.
IMAGE_NOT_SHOWN = "[The tool returned an image; it was not shown because this model cannot see images]"


def lower_item(item: Item, context: RequestContext) -> list[ChatMessage]:
    """The default lowering of every item."""
    if isinstance(item, Message):
        return _lower_message(item, context)
    if isinstance(item, Reasoning):
        return _lower_reasoning(item)
    if isinstance(item, ToolCall):
        return _lower_call(item, context)
    if isinstance(item, ToolOutput):
        return _lower_output(item, context)
    return lower_other_item(item, context)


def _lower_message(message: Message, context: RequestContext) -> list[ChatMessage]:
    parts = lower_parts(message.content, context)
    if not context.engine.supports_images and any(map(is_image, parts)):
        raise RequestError(
            f"'{context.path}' holds an image, and this model reads text only: "
            "leave the image out, or serve a vision model.",
            param=context.path,
            code="unsupported_content_type",
        )
    if message.role == "user":
        return [{"role": "user", "content": compact(parts)}]
    # Chat templates render image placeholders in user turns only, so images move to one; all else stays.
    images = [part for part in parts if is_image(part)]
    rest = [part for part in parts if not is_image(part)]
    moved: list[ChatMessage] = [{"role": "user", "content": images}] if images else []
    return [{"role": message.role, "content": compact(rest)}, *moved]


def _lower_reasoning(reasoning: Reasoning) -> list[ChatMessage]:
    """The thought, for the template's reasoning slot: as it was, or our own blob of it, or its summary.

    A blob of another server says nothing.
    """
    sealed = unseal(reasoning.encrypted_content or "")
    text = _joined(reasoning.content) or sealed or _joined(reasoning.summary)
    if not text:
        return []
    return [{"role": "assistant", "content": "", "reasoning_content": text}]


def _joined(parts: list[Part]) -> str:
    return "\n".join(part.text if isinstance(part, TextPart) else as_json(part.wire()) for part in parts)


def _lower_call(call: ToolCall, context: RequestContext) -> list[ChatMessage]:
    for kind in context.tool_kinds.values():
        if kind.history_call and kind.call_type == call.type:
            name, arguments = kind.history_call(call)
            shown_as = context.toolset.shown_as(name, getattr(call, "namespace", None))
            # Some clients leave out the arguments of a function without parameters.
            return [assistant_call(call.call_id, shown_as, arguments if arguments.strip() else "{}")]
    raise AssertionError(f"no tool kind has calls of type {call.type}")


def _lower_output(output: ToolOutput, context: RequestContext) -> list[ChatMessage]:
    """A tool message, and a user turn with the images of the output directly after it."""
    content = _kind_of_output(output, context).history_output(output)
    if isinstance(content, str):
        return [_tool_message(output.call_id, content)]
    parts = [lower_part(part, context) for part in content]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    images = [part for part in parts if is_image(part)]
    others = [_original(part) for part in parts if part["type"] != "text" and not is_image(part)]
    if others:
        texts.append(as_json(others))
    if images and not context.engine.supports_images:
        return [_tool_message(output.call_id, "\n".join([*texts, *[IMAGE_NOT_SHOWN] * len(images)]))]
    if images:
        texts.append(IMAGE_FOLLOWS)
    message = _tool_message(output.call_id, "\n".join(texts))
    return [message, {"role": "user", "content": images}] if images else [message]


def _kind_of_output(output: ToolOutput, context: RequestContext) -> ToolKind:
    return next(kind for kind in context.tool_kinds.values() if kind.output_type == output.type)


def _original(part: ChatPart) -> object:
    """The part as the client sent it."""
    return part["part"] if part["type"] == UNKNOWN else part


def _tool_message(call_id: str, content: str) -> ChatMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": content}
