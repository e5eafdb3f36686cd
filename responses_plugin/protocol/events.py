"""Stream events, one function each; the sequence number is added by the builder, which alone counts.

An event is a wire object whose ``type`` names it. These functions are the whole list of what this server sends.
"""

from __future__ import annotations

from responses_plugin.protocol.response import Wire

#: Types that end a stream; exactly one of them is sent, last.
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


def lifecycle(status: str, response: Wire) -> Wire:
    """``response.created``, ``.in_progress``, ``.completed``, ``.incomplete`` or ``.failed``."""
    return {"type": f"response.{status}", "response": response}


def item_added(output_index: int, item: Wire) -> Wire:
    return {"type": "response.output_item.added", "output_index": output_index, "item": item}


def item_done(output_index: int, item: Wire) -> Wire:
    return {"type": "response.output_item.done", "output_index": output_index, "item": item}


def part_added(item_id: str, output_index: int, part: Wire) -> Wire:
    return {
        "type": "response.content_part.added",
        "item_id": item_id,
        "output_index": output_index,
        "content_index": 0,
        "part": part,
    }


def part_done(item_id: str, output_index: int, part: Wire) -> Wire:
    return {**part_added(item_id, output_index, part), "type": "response.content_part.done"}


def text_delta(item_id: str, output_index: int, delta: str) -> Wire:
    return {
        "type": "response.output_text.delta",
        "item_id": item_id,
        "output_index": output_index,
        "content_index": 0,
        "delta": delta,
        "logprobs": [],
    }


def text_done(item_id: str, output_index: int, text: str) -> Wire:
    return {
        "type": "response.output_text.done",
        "item_id": item_id,
        "output_index": output_index,
        "content_index": 0,
        "text": text,
        "logprobs": [],
    }


def reasoning_delta(item_id: str, output_index: int, delta: str) -> Wire:
    return {
        "type": "response.reasoning_text.delta",
        "item_id": item_id,
        "output_index": output_index,
        "content_index": 0,
        "delta": delta,
    }


def reasoning_done(item_id: str, output_index: int, text: str) -> Wire:
    return {
        "type": "response.reasoning_text.done",
        "item_id": item_id,
        "output_index": output_index,
        "content_index": 0,
        "text": text,
    }


def summary(item_id: str, output_index: int, text: str) -> list[Wire]:
    """The events of a summary that came at once."""
    where = {"item_id": item_id, "output_index": output_index, "summary_index": 0}
    return [
        {"type": "response.reasoning_summary_part.added", **where, "part": {"type": "summary_text", "text": ""}},
        {"type": "response.reasoning_summary_text.delta", **where, "delta": text},
        {"type": "response.reasoning_summary_text.done", **where, "text": text},
        {"type": "response.reasoning_summary_part.done", **where, "part": {"type": "summary_text", "text": text}},
    ]


def payload_delta(type: str, item_id: str, output_index: int, delta: str) -> Wire:
    """The payload of a tool call grows; the kind of the call names the event."""
    return {"type": type, "item_id": item_id, "output_index": output_index, "delta": delta}


def payload_done(type: str, item_id: str, output_index: int, field: str, payload: str, name: str) -> Wire:
    return {"type": type, "item_id": item_id, "output_index": output_index, field: payload, "name": name}


def keepalive() -> Wire:
    """Tells clients that count only data events that the stream is alive."""
    return {"type": "keepalive"}


def error(code: str, message: str) -> Wire:
    """Says why the response is about to fail; flat as OpenAI sends it, and nested as other readers expect it."""
    details = {"type": "server_error", "code": code, "message": message, "param": None}
    return {"type": "error", "code": code, "message": message, "param": None, "error": details}
