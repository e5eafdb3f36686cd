"""The strict stream reader refuses what it is there to refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sse import StreamReader, check_items, joined_deltas, read_stream, terminal_response

Event = dict[str, Any]

PART: Event = {"type": "output_text", "text": "Hello"}
MESSAGE: Event = {"id": "msg_1", "type": "message", "status": "completed", "content": [PART]}
AT: Event = {"item_id": "msg_1", "output_index": 0, "content_index": 0}


def response(event_type: str, output: list[Event] | None = None, response_id: str = "resp_1") -> Event:
    return {"type": event_type, "response": {"id": response_id, "output": output or []}}


def story(**replaced: Event | list[Event]) -> list[Event]:
    """A right stream of one message, with some of its events replaced by other ones."""
    events: dict[str, Event] = {
        "created": response("response.created"),
        "added": {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": MESSAGE | {"status": "in_progress", "content": []},
        },
        "first": {"type": "response.output_text.delta", "delta": "Hel", **AT},
        "second": {"type": "response.output_text.delta", "delta": "lo", **AT},
        "text_done": {"type": "response.output_text.done", "text": "Hello", **AT},
        "done": {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
        "completed": response("response.completed", [MESSAGE]),
    }
    told: list[Event] = []
    for name, event in events.items():
        instead = replaced.get(name, event)
        told += instead if isinstance(instead, list) else [instead]
    return told


def encode(events: list[Event]) -> bytes:
    """The events as they should be written, numbered from 0 unless they have a number."""
    frames = []
    for number, event in enumerate(events):
        data = json.dumps({"sequence_number": number, **event}, separators=(",", ":"))
        frames.append(f"event: {event['type']}\ndata: {data}\n\n")
    return "".join(frames).encode()


def test_a_right_stream_is_read() -> None:
    """Events come with their bytes, types and data."""
    body = encode(story())
    events = read_stream(body)
    assert b"".join(event.raw for event in events) == body
    assert [event.sequence_number for event in events] == list(range(7))
    assert joined_deltas(events) == "Hello"
    assert terminal_response(events)["output"] == [MESSAGE]


def test_the_cuts_between_pieces_do_not_matter() -> None:
    """Byte by byte gives the same events as all at once."""
    body = encode(story())
    reader = StreamReader()
    for position in range(len(body)):
        reader.feed(body[position : position + 1])
    assert [event.raw for event in reader.close()] == [event.raw for event in read_stream(body)]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (encode(story()).replace(b"\n", b"\r\n"), "LF"),
        (encode(story()).replace(b"event: response.created\n", b""), "one event: line"),
        (b": comment\n\n" + encode(story()), "one event: line"),
        (encode(story()).replace(b"event: response.created", b"event: response.queued"), "does not match"),
        (encode(story()[:-1]), "the last event"),
        (encode(story())[:-1], "within an event"),
        (encode(story()[1:]), "the first event"),
        (encode(story(second=story()[3] | {"sequence_number": 2})), "expected 3"),
        (encode(story(completed=[story()[-1], story()[-1]])), "after the terminal event"),
        (b"", "no event"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_frame_is_refused(body: bytes, complaint: str) -> None:
    """Framing, numbering, and the first and the terminal event are checked."""
    with pytest.raises(AssertionError, match=complaint):
        read_stream(body)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        (story(completed=response("response.completed", [MESSAGE], "resp_2")), "changes its id"),
        (story(added=[]), "not open"),
        (story(done=[]), "left open"),
        (story(done=story()[5] | {"item": MESSAGE | {"id": "msg_2"}}), "changes its id"),
        (story(added=story()[1] | {"output_index": 1}), "out of order"),
        (story(first=story()[2] | {"item_id": "msg_2"}), "speaks of msg_2"),
        (story(first=story()[2] | {"delta": ""}), "is empty"),
        (story(second=[]), "do not add up"),
        (story(text_done=[]), "before its texts"),
        (story(text_done=[story()[4], story()[3]]), "comes after"),
        (story(done=story()[5] | {"item": MESSAGE | {"content": [PART | {"text": "Help"}]}}), "not what was streamed"),
        (story(completed=response("response.completed")), "differs from the items"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_story_that_does_not_add_up_is_refused(events: list[Event], complaint: str) -> None:
    """The life of every item is checked, from added to the terminal response."""
    reader = StreamReader()
    reader.feed(encode(events))
    told = reader.close()
    with pytest.raises(AssertionError, match=complaint):
        check_items(told)
