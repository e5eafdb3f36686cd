"""Bytes → typed values, once, at the edge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from responses_plugin.context import RequestContext
from responses_plugin.lowering.parts import parse_content
from responses_plugin.plugins import Plugins
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.items import Entry, Item, ItemReference, Message, Reasoning
from responses_plugin.protocol.request import ResponsesRequest
from responses_plugin.protocol.wire import require_object

#: JSON Schema keywords and tool definitions nest; nothing that clients send comes near this.
_MAX_DEPTH_MESSAGE = "it is nested too deeply"


def parse_body(body: bytes | bytearray) -> ResponsesRequest:
    """Decode and validate a request body; raises :class:`RequestError` for anything a client got wrong."""
    data = _decode(body)
    if not isinstance(data, dict):
        raise RequestError("The request body must be a JSON object.", code="invalid_type")
    request = ResponsesRequest.parse(data, "")
    if request.previous_response_id is not None and request.conversation is not None:
        raise RequestError(
            "'previous_response_id' and 'conversation' cannot be used together: send one of them.",
            param="previous_response_id",
            code="invalid_value",
        )
    if request.background:
        raise RequestError(
            "'background' is not supported: leave it out and read the answer from this request.",
            param="background",
            code="unsupported_parameter",
        )
    return request


def _decode(body: bytes | bytearray) -> Any:
    """Parse JSON. pydantic's parser is an order of magnitude faster on megabytes of base64 than the standard one, but
    refuses unpaired surrogate escapes, which JavaScript clients send when they cut a string in the middle of an emoji.
    """
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        if "surrogate" not in str(error):
            raise _not_json(str(error)) from None
    try:
        return _replace_surrogates(json.loads(body))
    except RecursionError:
        raise _not_json(_MAX_DEPTH_MESSAGE) from None
    except ValueError as error:
        raise _not_json(str(error)) from None


def _replace_surrogates(value: Any) -> Any:
    """Unpaired surrogates cannot be encoded or tokenized; they become U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replace_surrogates(element) for element in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(element) for key, element in value.items()}
    return value


def _not_json(why: str) -> RequestError:
    return RequestError(f"The request body is not valid JSON: {why}.", code="invalid_json")


def parse_input(plugins: Plugins, context: RequestContext) -> list[Entry]:
    """The request's own input items, in order. A plain string is one user message."""
    raw_input = context.request.input
    if isinstance(raw_input, str):
        raw_input = [{"type": "message", "role": "user", "content": raw_input}]
    entries = []
    for index, raw in enumerate(raw_input):
        path = f"input[{index}]"
        item = plugins.parse_input_item(_with_type(raw, path), context.at(path))
        entries.append(Entry(item, path))
    return entries


def _with_type(raw: Any, path: str) -> Mapping[str, Any]:
    """Fill in the ``type`` that the short forms leave out."""
    item = require_object(raw, path)
    if item.get("type") is not None:
        if not isinstance(item["type"], str):
            raise RequestError(
                f"Invalid type for '{path}.type': expected a string.", param=f"{path}.type", code="invalid_type"
            )
        return item
    if "role" in item:
        return {**item, "type": "message"}
    if isinstance(item.get("id"), str) and "content" not in item:
        return {**item, "type": "item_reference"}
    raise RequestError(
        f"Missing required parameter: '{path}.type'.", param=f"{path}.type", code="missing_required_parameter"
    )


def parse_item(raw: Mapping[str, Any], context: RequestContext) -> Item:
    """The default for every item: messages, reasoning, references, the calls and outputs of all tool kinds.

    An item of any other type is kept as it is; lowering shows it to the model as a labelled note.
    """
    path, item_type = context.path, raw["type"]
    if item_type == "message":
        return Message.parse(_with_parsed(raw, ("content",), context), path)
    if item_type == "reasoning":
        return Reasoning.parse(_with_parsed(raw, ("summary", "content"), context), path)
    if item_type == "item_reference":
        return ItemReference.parse(raw, path)
    for kind in context.tool_kinds.values():
        if item_type == kind.call_type:
            return kind.call.parse(raw, path)
        if item_type == kind.output_type:
            return kind.output.parse(_with_parsed(raw, ("output",), context), path)
    return Item.parse(raw, path)


def _with_parsed(raw: Mapping[str, Any], fields: tuple[str, ...], context: RequestContext) -> dict[str, Any]:
    """A copy of ``raw`` whose content fields are parsed; absent and null ones stay away."""
    parsed = {
        field: parse_content(raw[field], f"{context.path}.{field}", context)
        for field in fields
        if raw.get(field) is not None
    }
    return {**raw, **parsed}
