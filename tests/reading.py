"""A request's way from JSON to chat messages, as the service takes it, and short forms of what tests put in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin.context import EngineFacts, RequestContext
from responses_plugin.kinds.toolset import Declaration, Toolset, parse_tools
from responses_plugin.lowering.conversation import lower_conversation, require_input
from responses_plugin.lowering.request import lower_request
from responses_plugin.lowering.template import TemplateRules
from responses_plugin.parsing import parse_body, parse_input
from responses_plugin.plugins import Plugins, load_plugins
from responses_plugin.protocol.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from responses_plugin.lowering.messages import ChatMessage
    from responses_plugin.protocol.items import Entry, Item

#: The built-in plugins alone, whatever is installed here.
BUILTIN = load_plugins(discover=False)

Json = dict[str, Any]


def encode(body: Any) -> bytes:
    """The bytes a client sends; whatever ASCII cannot hold is escaped."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def read(body: Any, plugins: Plugins = BUILTIN) -> tuple[RequestContext, list[Entry]]:
    """A body as the service reads it: the request with its tools, and its items, references still standing."""
    request = parse_body(encode(body))
    context = RequestContext(request, plugins.tool_kinds, plugins.content_parts, Toolset())
    entries = parse_input(plugins, context)
    return with_tools(context, entries), entries


def with_tools(context: RequestContext, entries: Sequence[Entry]) -> RequestContext:
    """The context with the tools of the request, and those that its items bring along."""
    brought = [Declaration(entry.item.declared_tools(), f"{entry.path}.tools") for entry in entries]
    return replace(context, toolset=parse_tools(context.request.tools, context.tool_kinds, brought))


def read_item(raw: Json) -> Item:
    """One input item, parsed."""
    _, entries = read({"model": "m", "input": [raw]})
    return entries[0].item


def lower_body(
    body: Any, plugins: Plugins = BUILTIN, *, supports_images: bool = True, template: TemplateRules | None = None
) -> tuple[Json, list[ChatMessage]]:
    """A body's chat request and its messages."""
    context, entries = read(body, plugins)
    require_input(entries, context.request.instructions)
    chat = lower_request(context.request, context.toolset)
    context = replace(context, engine=EngineFacts(supports_images, template or TemplateRules()))
    return chat, lower_conversation(plugins, entries, context)


def lower(
    items: Any,
    plugins: Plugins = BUILTIN,
    *,
    supports_images: bool = True,
    template: TemplateRules | None = None,
    **fields: Any,
) -> list[ChatMessage]:
    """The messages of a request with these items."""
    body = {"model": "m", "input": items, **fields}
    return lower_body(body, plugins, supports_images=supports_images, template=template)[1]


def refusal(body: Any, *, supports_images: bool = True) -> RequestError:
    """The error that a body is refused with."""
    with pytest.raises(RequestError) as caught:
        lower_body(body, supports_images=supports_images)
    return caught.value


def error_of(function: Callable[..., object], *args: Any, **kwargs: Any) -> RequestError | None:
    """The error that a call is refused with, if it is; any other exception is not caught."""
    try:
        function(*args, **kwargs)
    except RequestError as error:
        return error
    return None


def user(content: Any) -> Json:
    return {"type": "message", "role": "user", "content": content}


def assistant(text: str) -> Json:
    """An assistant's message as the API returned it."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def developer(text: str) -> Json:
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


def reasoning(text: str) -> Json:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def call(call_id: str, name: str = "look", arguments: str = "{}") -> Json:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str, value: Any = "seen") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def text(value: str) -> Json:
    return {"type": "input_text", "text": value}


def image(url: str, **fields: Any) -> Json:
    return {"type": "input_image", "image_url": url, **fields}


def chat_call(call_id: str, name: str = "look", arguments: str = "{}") -> Json:
    """A call as chat messages hold it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_image(url: str, **fields: Any) -> Json:
    """An image as chat messages hold it."""
    return {"type": "image_url", "image_url": {"url": url, **fields}}
