"""Bytes → typed values, once, at the edge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from responses_plugin.context import RequestContext
from responses_plugin.lowering.parts import parse_content
from responses_plugin.payloads import put_back, take_out
from responses_plugin.plugins import Plugins
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.items import AdditionalTools, Entry, Item, ItemReference, Message, Reasoning
from responses_plugin.protocol.request import ResponsesRequest
from responses_plugin.protocol.wire import missing, require_object, wrong_type

#: The escapes of JSON text: a pair of surrogates, half of one (group 1), any other. JavaScript clients send halves
#: when they cut a string in the middle of an emoji; nothing can encode or tokenize them.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


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
    if request.text.format.type == "json_schema" and request.text.format.schema_ is None:
        raise missing("text.format.schema")
    return request


def _decode(body: bytes | bytearray) -> Any:
    """Parse JSON with pydantic's parser, which is an order of magnitude faster on megabytes of base64 than the
    standard one. It refuses halves of surrogate pairs, so those are replaced where it fails.
    """
    text, payloads = take_out(body)
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        value = _decode_repaired(_ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], text))
    return put_back(value, payloads) if payloads else value


def _decode_repaired(text: bytes) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise RequestError(f"The request body is not valid JSON: {error}.", code="invalid_json") from None


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
            raise wrong_type(f"{path}.type", "a string", item["type"])
        return item
    if "role" in item:
        return {**item, "type": "message"}
    if isinstance(item.get("id"), str) and "content" not in item:
        return {**item, "type": "item_reference"}
    raise missing(f"{path}.type")


def parse_item(raw: Mapping[str, Any], context: RequestContext) -> Item:
    """The default for every item: messages, reasoning, references, the calls and outputs of all tool kinds.

    An item of any other type is kept as it is; lowering shows it to the model as a labelled note.
    """
    path, item_type = context.path, raw["type"]
    if item_type == "message":
        return Message.parse(_with_parsed(raw, ("content",), context), path)
    if item_type == "reasoning":
        return Reasoning.parse(_with_parsed(raw, ("summary", "content"), context), path)
    if item_type == "additional_tools":
        return AdditionalTools.parse(raw, path)
    if item_type == "item_reference":
        return ItemReference.parse(raw, path)
    for kind in context.tool_kinds.values():
        if kind.call and item_type == kind.call_type:
            return kind.call.parse(raw, path)
        if kind.output and item_type == kind.output_type:
            return kind.output.parse(_with_parsed(raw, kind.output.content_fields, context), path)
    return Item.parse(raw, path)


def _with_parsed(raw: Mapping[str, Any], fields: tuple[str, ...], context: RequestContext) -> dict[str, Any]:
    """A copy of ``raw`` whose content fields are parsed; absent and null ones stay away."""
    parsed = {
        field: parse_content(raw[field], f"{context.path}.{field}", context)
        for field in fields
        if raw.get(field) is not None
    }
    return {**raw, **parsed}
