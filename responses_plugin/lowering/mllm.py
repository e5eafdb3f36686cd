"""Chat messages the way multimodal engines and their chat templates need them: with the tool exchange whole.

On a text-only engine the host prepares a tool exchange for the template: arguments become a mapping, content a
string. A multimodal engine gets the messages themselves, so the same has to be done before it sees them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: A host's builder: chat messages in, template messages out.
Builder = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def build_mllm_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template-ready form of one chat message; the message itself is left as it is.

    An assistant message with ``tool_calls`` gets its arguments as mappings, see :func:`parse_arguments`, and its
    empty content, like that of a tool message, becomes ``""``: templates concatenate it, and a host that leaves out
    null fields or empty messages would otherwise take the message out of the exchange. Everything else, parts and
    their order included, is passed on as it came.
    """
    if is_call(message):
        calls = [_with_mapping_arguments(call) for call in message["tool_calls"]]
        return {**message, "content": message.get("content") or "", "tool_calls": calls}
    if message.get("role") == "tool":
        return {**message, "content": message.get("content") or ""}
    return dict(message)


def is_call(message: Mapping[str, Any]) -> bool:
    """Whether this is an assistant message that calls tools."""
    return message.get("role") == "assistant" and bool(message.get("tool_calls"))


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call as the mapping that templates iterate; anything but an object is put under ``value``.

    The host's text path reads them in two places, so an object that was encoded twice is an object there, and here.
    Where that path would hand a bare array or number to the template, which then cannot iterate it, it is wrapped
    as well.
    """
    value: Any = text
    for _ in range(2):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):  # the model's or a client's malformed JSON stays what it is: text
            break
    return value if isinstance(value, dict) else {"value": value}


def restore_tool_exchange(message: Mapping[str, Any], built: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put back what a host's builder dropped of one message of a tool exchange.

    ``message`` is template-ready, ``built`` what the host made of it alone: one template message, or none when it
    took the message for an empty one.
    """
    names: tuple[str, ...] = ()
    if is_call(message):
        names = ("tool_calls", "reasoning_content")
    elif message.get("role") == "tool":
        names = ("tool_call_id",)
    exchange = {name: message[name] for name in names if message.get(name)}
    if exchange and not built:
        built = [{"role": message["role"], "content": ""}]
    return [{**entry, **exchange} for entry in built]


def keeps_tool_exchange(build: Builder) -> bool:
    """Whether a host's builder keeps a call without text and its empty result, tried on a small exchange."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    exchange: list[dict[str, Any]] = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
    ]
    built = build([build_mllm_message(message) for message in exchange])
    if [message.get("role") for message in built] != ["user", "assistant", "tool"]:
        return False
    return bool(built[1].get("tool_calls")) and built[2].get("tool_call_id") == "call_1"


def _with_mapping_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return dict(call)
    return {**call, "function": {**function, "arguments": parse_arguments(function["arguments"])}}
