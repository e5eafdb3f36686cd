"""Items that no chat role fits: what the model is shown of them.

Most are calls of tools that ran elsewhere. They become a labelled note in a user turn, so that the model knows what
happened; images among them are shown as images, and other long data is left out.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from responses_plugin.context import RequestContext
from responses_plugin.images import check_image_url, label_as_image
from responses_plugin.lowering.messages import ChatMessage, note
from responses_plugin.lowering.parts import as_json
from responses_plugin.protocol.items import Item, note_fields
from responses_plugin.protocol.wire import wrong_type

logger = logging.getLogger(__name__)

#: Text without any white space that is longer than this is data, not something to read.
_LONGEST_WORD = 1000
_BLANK = re.compile(r"\s")
_IMAGE_NOT_SHOWN = "[Its image is not shown because this model cannot see images]"


def lower_other_item(item: Item, context: RequestContext) -> list[ChatMessage]:
    """The messages of an item that is no message, no reasoning and no call or output of a known tool kind."""
    special = _SPECIAL.get(item.type)
    if special is not None:
        return special(item, context)
    _log_once(item.type[:100])
    return [_json_note(item, note_fields(item))]


def _json_note(item: Item, fields: Mapping[str, Any]) -> ChatMessage:
    return note(f"item of type {item.type}", as_json(_readable(fields)))


def _nothing(item: Item, context: RequestContext) -> list[ChatMessage]:
    """An item whose effect is elsewhere."""
    return []


def _agent_message(item: Item, context: RequestContext) -> list[ChatMessage]:
    """A message between agents. What Codex calls its encrypted content is text that this server once generated."""
    fields = item.wire()
    content = fields.get("content", [])
    label = f"message from {fields.get('author', 'an agent')} to {fields.get('recipient', 'this agent')}"
    return [note(label, "\n".join(map(_agent_text, content if isinstance(content, list) else [content])))]


def _agent_text(part: Any) -> str:
    text = part.get("text") or part.get("encrypted_content") if isinstance(part, dict) else part
    return text if isinstance(text, str) else as_json(_readable(part))


def _generated_image(item: Item, context: RequestContext) -> list[ChatMessage]:
    fields = note_fields(item)
    result = fields.pop("result", None) or None  # empty while it is not there yet
    url = f"data:image/png;base64,{result}" if isinstance(result, str) else result
    return _with_image(item, fields, url, context.at(f"{context.path}.result"))


def _computer_output(item: Item, context: RequestContext) -> list[ChatMessage]:
    fields = note_fields(item)
    output = fields.get("output")
    url = None
    if isinstance(output, dict):
        url = output.get("image_url")
        fields["output"] = {key: value for key, value in output.items() if key != "image_url"}
    return _with_image(item, fields, url, context.at(f"{context.path}.output.image_url"))


def _with_image(item: Item, fields: dict[str, Any], url: Any, context: RequestContext) -> list[ChatMessage]:
    """The note, and the image right after it; ``context`` is at the image."""
    about = _json_note(item, fields)
    if url is None:
        return [about]
    if not isinstance(url, str):
        raise wrong_type(context.path, "a string", url)
    check_image_url(url, context.path)
    if not context.engine.supports_images:
        return [{**about, "content": f"{about['content']}\n{_IMAGE_NOT_SHOWN}"}]
    image = {"type": "image_url", "image_url": {"url": label_as_image(url)}}
    return [about, {"role": "user", "content": [image]}]


_SPECIAL: Mapping[str, Callable[[Item, RequestContext], list[ChatMessage]]] = {
    "additional_tools": _nothing,
    "agent_message": _agent_message,
    "computer_call_output": _computer_output,
    "image_generation_call": _generated_image,
}


def _readable(value: Any) -> Any:
    """The same JSON without data that no model can read."""
    if isinstance(value, str):
        unreadable = len(value) > _LONGEST_WORD and not _BLANK.search(value)
        return f"[{len(value)} characters of data]" if unreadable else value
    if isinstance(value, dict):
        return {key: _readable(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_readable(element) for element in value]
    return value


@functools.lru_cache(maxsize=1000)
def _log_once(item_type: str) -> None:
    """An agent sends the same history with every request, so only the first item of a type is worth a line."""
    logger.warning("items of type %r are shown to the model as JSON text", item_type)
