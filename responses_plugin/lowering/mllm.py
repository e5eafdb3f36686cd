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

#: What the parts that a template knows are to it, by the types that they have on the way in.
_TEMPLATE_TYPES = {
    "text": "text",
    "image_url": "image",
    "image": "image",
    "audio_url": "audio",
    "audio": "audio",
    "video_url": "video",
    "video": "video",
}
#: In what order a host that does not keep theirs puts them; frames of a video are images.
_HOST_ORDER = {"image": 0, "video": 0, "audio": 1, "text": 2}


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


def kept(message: Mapping[str, Any], build: Builder) -> list[dict[str, Any]]:
    """What a host's builder makes of one message alone, the tool exchange put back."""
    ready = build_mllm_message(message)
    return restore_tool_exchange(ready, build([ready]))


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


class _StandInRole(str):
    """The role ``"user"``, which also brings along the message that it stands for."""

    __slots__ = ("message",)

    message: dict[str, Any]


def stand_in(message: dict[str, Any]) -> dict[str, Any]:
    """What to give to a host that builds template messages from role and text alone, with media in front.

    A message of which such a host would lose or move something becomes a user message with the same content: of
    those the host keeps all text, media and payloads. :func:`replace_stand_ins` recognises it by its role, the one
    thing that is passed on as it is. Every other message is returned itself.
    """
    ready = build_mllm_message(message)
    is_exchange = is_call(ready) or (ready.get("role") == "tool" and ready.get("tool_call_id"))
    if not is_exchange and not _moves_media(ready):
        return message
    role = _StandInRole("user")
    role.message = ready
    # A message without content would be dropped, its stand-in with it.
    return {"role": role, "content": ready["content"] or "-"}


def replace_stand_ins(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The template messages that a host built, with what stand-ins stood for in their places."""
    replaced: list[dict[str, Any]] = []
    for entry in entries:
        role = entry.get("role")
        if isinstance(role, _StandInRole):
            replaced += restore_tool_exchange(role.message, [_in_order(role.message, entry)])
        else:
            replaced.append(dict(entry))
    return replaced


def with_all_media(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message for a host that collects payloads from plain messages only, whatever its role and calls are."""
    if isinstance(message.get("content"), list) and (message.get("role") == "tool" or is_call(message)):
        return {"role": "user", "content": message["content"]}
    return message


def _moves_media(message: Mapping[str, Any]) -> bool:
    """Whether media would be moved from their places, or lost because someone else than the user shows them."""
    order = [_HOST_ORDER[_template_type(part)] for part in _parts(message.get("content"))]
    has_media = any(place < _HOST_ORDER["text"] for place in order)
    return has_media and (message.get("role") != "user" or order != sorted(order))


def _in_order(message: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """The template message with its parts in their order; ``entry`` is what the host made of the stand-in.

    A host that cannot show a video shows its frames. It alone knows how many, so they are counted in ``entry``.
    """
    parts = _parts(message["content"])
    images = sum(_template_type(part) == "image" for part in parts)
    frames = sum(_template_type(part) == "image" for part in _parts(entry["content"])) - images
    built: list[dict[str, str]] = []
    for part in parts:
        type = _template_type(part)
        if type == "video":
            built += [{"type": "image"}] * frames
            frames = 0
        elif type != "text":
            built.append({"type": type})
        elif text := part.get("text"):
            built.append({"type": "text", "text": text, "content": text})
    role = message["role"]
    if role == "assistant" and not any(part["type"] == "image" for part in built):
        # Templates expect a string where an assistant showed nothing; later hosts keep its images only.
        return {"role": role, "content": "".join(part.get("text", "") for part in built)}
    return {"role": role, "content": built or ""}


def _parts(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a content that a template knows."""
    if isinstance(content, str):
        content = [content] if content else []
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content or ()]
    parts = [part.model_dump(exclude_none=True) if hasattr(part, "model_dump") else part for part in parts]
    return [part for part in parts if isinstance(part, Mapping) and _template_type(part)]


def _template_type(part: Mapping[str, Any]) -> str:
    """What a part is to a template; empty for what no template knows."""
    return _TEMPLATE_TYPES.get(str(part.get("type")), "")


def _with_mapping_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return dict(call)
    return {**call, "function": {**function, "arguments": parse_arguments(function["arguments"])}}
