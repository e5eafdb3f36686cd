"""A strict reader of Responses streams: whatever it returns, every client can read.

:func:`read_stream` is for a whole body, :class:`StreamReader` for one that still arrives. Both check the framing, the
numbering and the terminal event; :func:`check_items` checks that the events tell one consistent story about the items.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

#: The events of which a stream has exactly one, at its end.
TERMINAL_TYPES = ("response.completed", "response.incomplete", "response.failed")


@dataclass(frozen=True)
class StreamEvent:
    """One server-sent event."""

    #: The bytes as they came, the blank line included.
    raw: bytes
    type: str
    data: dict[str, Any]
    #: When its last byte came, in seconds of ``time.monotonic()``.
    arrived: float

    @property
    def sequence_number(self) -> int:
        number = self.data["sequence_number"]
        assert isinstance(number, int)
        return number


@dataclass
class StreamReader:
    """Takes the body in pieces cut anywhere and returns the events that became complete."""

    events: list[StreamEvent] = field(default_factory=list)
    _rest: bytes = b""

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """Read on. Raises ``AssertionError`` at the first byte that a strict client would not take."""
        self._rest += piece
        assert b"\r" not in self._rest, "line ends must be LF"
        *blocks, self._rest = self._rest.split(b"\n\n")
        return [self._read_event(block) for block in blocks]

    def close(self) -> list[StreamEvent]:
        """Check that the stream is complete, and return all its events."""
        assert self._rest == b"", f"the stream ends within an event: {self._rest[:200]!r}"
        assert self.events, "the stream holds no event"
        assert self.events[-1].type in TERMINAL_TYPES, f"the last event is {self.events[-1].type}"
        return self.events

    def _read_event(self, block: bytes) -> StreamEvent:
        lines = block.decode("utf-8").split("\n")
        names = [line.partition(": ")[0] for line in lines]
        assert names == ["event", "data"], f"an event is one event: line and one data: line, not {block[:200]!r}"
        event_type, data_text = (line.partition(": ")[2] for line in lines)
        data = json.loads(data_text)
        assert isinstance(data, dict), f"data is not an object: {data_text[:200]}"
        assert data.get("type") == event_type, f"event: {event_type} does not match data.type {data.get('type')}"
        number = data.get("sequence_number")
        assert number == len(self.events), f"{event_type} has number {number}, expected {len(self.events)}"
        if self.events:
            assert self.events[-1].type not in TERMINAL_TYPES, f"{event_type} comes after the terminal event"
        else:
            assert event_type == "response.created", f"the first event is {event_type}"
        event = StreamEvent(block + b"\n\n", event_type, data, time.monotonic())
        self.events.append(event)
        return event


def read_stream(body: bytes) -> list[StreamEvent]:
    """The events of a whole body, framing, numbering and items checked."""
    reader = StreamReader()
    reader.feed(body)
    events = reader.close()
    check_items(events)
    return events


def terminal_response(events: list[StreamEvent]) -> dict[str, Any]:
    """The response object of the terminal event."""
    response = events[-1].data["response"]
    assert isinstance(response, dict)
    return response


def joined_deltas(events: list[StreamEvent], event_type: str = "response.output_text.delta") -> str:
    """The text of all deltas of one type, in order."""
    return "".join(event.data["delta"] for event in events if event.type == event_type)


# --- Items -----------------------------------------------------------------------------------------------------------

#: For the text that arrives in deltas: the type of the done event, the field that repeats the whole text there, and the
#: fields beside ``item_id`` that say which text of the item it is.
_DELTAS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "response.output_text.delta": ("response.output_text.done", "text", ("content_index",)),
    "response.refusal.delta": ("response.refusal.done", "refusal", ("content_index",)),
    "response.reasoning_text.delta": ("response.reasoning_text.done", "text", ("content_index",)),
    "response.reasoning_summary_text.delta": ("response.reasoning_summary_text.done", "text", ("summary_index",)),
    "response.function_call_arguments.delta": ("response.function_call_arguments.done", "arguments", ()),
    "response.custom_tool_call_input.delta": ("response.custom_tool_call_input.done", "input", ()),
}
_DONE_FIELDS = {done: (whole, keys) for done, whole, keys in _DELTAS.values()}


def check_items(events: list[StreamEvent]) -> None:
    """Check the life of every item.

    Items are added in the order of their indexes and done once each; every event between speaks of an open item by its
    id and index; joined deltas equal the done text; and the terminal response holds the items exactly as they were done.
    """
    story = _ItemStory()
    response_ids = {event.data["response"]["id"] for event in events if "response" in event.data}
    assert len(response_ids) == 1, f"the response changes its id: {response_ids}"
    for event in events:
        story.tell(event)
    story.end(events[-1])


#: The text done events of the parts of an item.
_PART_TEXTS = {
    "output_text": ("response.output_text.done", "text"),
    "refusal": ("response.refusal.done", "refusal"),
    "reasoning_text": ("response.reasoning_text.done", "text"),
    "summary_text": ("response.reasoning_summary_text.done", "text"),
}
#: The same for items that are a text themselves.
_ITEM_TEXTS = {
    "function_call": ("response.function_call_arguments.done", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input.done", "input"),
}


def _texts_of(item: dict[str, Any]) -> dict[tuple[object, ...], str]:
    """The texts of a done item, by the key under which their deltas were collected; without the empty ones."""
    texts: dict[tuple[object, ...], str] = {}
    for parts in (item.get("content") or [], item.get("summary") or []):
        for index, part in enumerate(parts):
            if part["type"] in _PART_TEXTS:
                done_type, name = _PART_TEXTS[part["type"]]
                texts[done_type, item["id"], index] = part[name]
    if item["type"] in _ITEM_TEXTS:
        done_type, name = _ITEM_TEXTS[item["type"]]
        texts[done_type, item["id"]] = item[name]
    return {key: text for key, text in texts.items() if text}


@dataclass
class _ItemStory:
    open: dict[int, dict[str, Any]] = field(default_factory=dict)
    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    texts: dict[tuple[object, ...], str] = field(default_factory=dict)
    finished_texts: set[tuple[object, ...]] = field(default_factory=set)

    def tell(self, event: StreamEvent) -> None:
        data = event.data
        if event.type == "response.output_item.added":
            index = data["output_index"]
            assert index == len(self.open) + len(self.done), f"item {index} is added out of order"
            assert data["item"].get("status", "in_progress") == "in_progress", "an added item is in progress"
            self.open[index] = data["item"]
        elif event.type == "response.output_item.done":
            index, item = data["output_index"], data["item"]
            added = self.open.pop(index, None)
            assert added is not None, f"item {index} is done but not open"
            for name in ("id", "type", "call_id", "name", "namespace"):
                assert added.get(name) == item.get(name), f"item {index} changes its {name}"
            assert item.get("status", "completed") in ("completed", "incomplete", "failed"), item["status"]
            left = {key for key in self.texts if key[1] == item["id"]} - self.finished_texts
            assert not left, f"item {index} is done before its texts: {left}"
            streamed = {key: text for key, text in self.texts.items() if key[1] == item["id"]}
            assert streamed == _texts_of(item), f"item {index} is not what was streamed"
            self.done[index] = item
        elif "item_id" in data:
            item = self.open.get(data["output_index"])
            assert item is not None, f"{event.type} speaks of item {data['output_index']}, which is not open"
            assert item["id"] == data["item_id"], f"{event.type} speaks of {data['item_id']}, not of {item['id']}"
            self._tell_text(event)

    def _tell_text(self, event: StreamEvent) -> None:
        data = event.data
        if event.type in _DELTAS:
            done_type, _, names = _DELTAS[event.type]
            key = (done_type, data["item_id"], *(data[name] for name in names))
            assert key not in self.finished_texts, f"{event.type} comes after {done_type}"
            assert data["delta"] != "", f"{event.type} is empty"
            self.texts[key] = self.texts.get(key, "") + data["delta"]
        elif event.type in _DONE_FIELDS:
            whole, names = _DONE_FIELDS[event.type]
            key = (event.type, data["item_id"], *(data[name] for name in names))
            assert key not in self.finished_texts, f"{event.type} comes twice"
            assert self.texts.get(key, "") == data[whole], f"the deltas do not add up to {event.type}"
            self.finished_texts.add(key)

    def end(self, terminal: StreamEvent) -> None:
        assert not self.open or terminal.type == "response.failed", f"items are left open: {self.open}"
        output = terminal.data["response"]["output"]
        if terminal.type == "response.failed":
            return
        assert output == [self.done[index] for index in sorted(self.done)], (
            "the terminal response differs from the items"
        )
