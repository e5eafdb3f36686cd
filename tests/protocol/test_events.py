"""Stream events: each has what the protocol requires of it, as openai's types and the published schemas have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from responses_plugin.generation.events import Failed, ReasoningDelta, TextDelta
from responses_plugin.generation.sse import encode_event
from responses_plugin.protocol import events
from responses_plugin.protocol.response import response_object
from tests.generation.building import FINISHED, TRUNCATED, build, call, new_builder
from tests.openai_oracle import read_events
from tests.sse import StreamEvent, read_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from responses_plugin.protocol.response import Wire

STREAMS = Path(__file__).parents[1] / "data" / "streams"
OPENAI_EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)

#: The fields that the published schemas require of each event besides ``type`` and ``sequence_number``. Where OpenAI
#: and the Open Responses specification differ, both are served.
REQUIRED = {
    "response.created": {"response"},
    "response.in_progress": {"response"},
    "response.completed": {"response"},
    "response.incomplete": {"response"},
    "response.failed": {"response"},
    "response.output_item.added": {"output_index", "item"},
    "response.output_item.done": {"output_index", "item"},
    "response.content_part.added": {"item_id", "output_index", "content_index", "part"},
    "response.content_part.done": {"item_id", "output_index", "content_index", "part"},
    "response.output_text.delta": {"item_id", "output_index", "content_index", "delta", "logprobs"},
    "response.output_text.done": {"item_id", "output_index", "content_index", "text", "logprobs"},
    "response.reasoning_text.delta": {"item_id", "output_index", "content_index", "delta"},
    "response.reasoning_text.done": {"item_id", "output_index", "content_index", "text"},
    "response.reasoning_summary_part.added": {"item_id", "output_index", "summary_index", "part"},
    "response.reasoning_summary_part.done": {"item_id", "output_index", "summary_index", "part"},
    "response.reasoning_summary_text.delta": {"item_id", "output_index", "summary_index", "delta"},
    "response.reasoning_summary_text.done": {"item_id", "output_index", "summary_index", "text"},
    "response.function_call_arguments.delta": {"item_id", "output_index", "delta"},
    "response.function_call_arguments.done": {"item_id", "output_index", "arguments", "name"},
    "response.custom_tool_call_input.delta": {"item_id", "output_index", "delta"},
    "response.custom_tool_call_input.done": {"item_id", "output_index", "input"},
    "error": {"code", "message", "param", "error"},
    "keepalive": set(),
}

#: The same for items; a status is always there, clients want it of calls and nobody minds it.
REQUIRED_OF_ITEMS = {
    "message": {"id", "status", "role", "content"},
    "reasoning": {"id", "status", "summary", "content"},
    "function_call": {"id", "status", "call_id", "name", "arguments"},
    "custom_tool_call": {"id", "status", "call_id", "name", "input"},
}


def every_event() -> list[Wire]:
    """Events of every type we send."""
    answer = [ReasoningDelta("Hm."), *call("get_weather", "{}"), *call("apply_patch", '{"input": "a"}'), TextDelta("a")]
    builder = new_builder()
    builder.start()
    return [
        *build([*answer, FINISHED], reasoning={"summary": "auto"}, include=["reasoning.encrypted_content"]),
        *build([TextDelta("a"), TRUNCATED]),
        *build([Failed("The engine broke.")]),
        *builder.keepalive(),
    ]


def test_every_type_is_covered() -> None:
    """The list above is the whole of what this server sends."""
    assert {event["type"] for event in every_event()} == REQUIRED.keys()


@pytest.mark.parametrize("event_type", REQUIRED)
def test_required_fields_are_there(event_type: str) -> None:
    """Each event has the required fields, its type and its number, and none of them is null; clients know no others."""
    for event in every_event():
        if event["type"] == event_type:
            fields = event.keys() - {"type", "sequence_number"}
            assert fields >= REQUIRED[event_type]
            assert fields - {"name"} <= REQUIRED[event_type]
            assert None not in [value for field, value in event.items() if field != "param"]


def test_required_fields_of_items_are_there() -> None:
    """From ``added`` on: an item has all its fields from the beginning, empty where nothing has come."""
    seen = set()
    for event in every_event():
        for item in [event["item"]] if "item" in event else event.get("response", {}).get("output", []):
            assert item.keys() >= REQUIRED_OF_ITEMS[item["type"]]
            assert None not in item.values()
            seen.add(item["type"])
    assert seen == REQUIRED_OF_ITEMS.keys()


def test_parts_have_their_lists() -> None:
    """Strict clients want annotations and log probabilities of every text, be they empty."""
    parts = [event["part"] for event in every_event() if "part" in event]
    assert {part["type"] for part in parts} == {"output_text", "reasoning_text", "summary_text"}
    for part in parts:
        if part["type"] == "output_text":
            assert (part["annotations"], part["logprobs"]) == ([], [])


@pytest.mark.parametrize("event_type", REQUIRED.keys() - {"keepalive"})
def test_openai_types_take_every_event(event_type: str) -> None:
    """Validated, not just constructed as its client does."""
    for event in every_event():
        if event["type"] == event_type:
            typed = OPENAI_EVENT.validate_python(event)
            assert typed.type == event_type


def test_terminal_types() -> None:
    """The events that end a stream are those that the builder ends one with."""
    ends = {build([end])[-1]["type"] for end in (FINISHED, TRUNCATED, Failed("no"))}
    assert ends == events.TERMINAL


def test_an_event_is_one_write_with_lf_line_ends() -> None:
    """``event:``, ``data:``, a blank line; what the data holds cannot break the frame."""
    event = {"type": "response.output_text.delta", "delta": "a\r\n\n\ndata: é\u2028😀\x00"}
    encoded = encode_event(event)
    assert encoded.startswith(b"event: response.output_text.delta\ndata: {")
    assert encoded.endswith(b"}\n\n")
    assert encoded.count(b"\n") == 3
    assert b"\r" not in encoded
    assert json.loads(encoded.split(b"data: ", 1)[1]) == event


# --- The judge is judged -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(STREAMS.glob("*.sse")), ids=lambda path: path.stem)
def test_reference_streams_pass(path: Path) -> None:
    """Streams that real clients were seen to accept are accepted here: what fails these checks is really wrong."""
    read_events(read_stream(path.read_bytes()))


def _altered(change: Any) -> list[StreamEvent]:
    """A good stream with one change made to each of its events that it applies to."""
    made = build([*call("get_weather", "{}"), TextDelta("a"), FINISHED])
    return _framed(event for original in made for event in change(json.loads(json.dumps(original))))


def _framed(made: Iterable[Wire]) -> list[StreamEvent]:
    return [StreamEvent(encode_event(event), event["type"], event, 0.0) for event in made]


def _without(event_type: str) -> Any:
    return lambda event: [] if event["type"] == event_type else [event]


def _without_field(event_type: str, field: str) -> Any:
    def change(event: Wire) -> list[Wire]:
        if event["type"] == event_type:
            del event[field]
        return [event]

    return change


def _with_other_id(event: Wire) -> list[Wire]:
    if event["type"] == "response.output_item.done":
        event["item"]["id"] += "x"
    return [event]


@pytest.mark.parametrize(
    "change",
    [
        _without("response.created"),
        _without("response.output_item.added"),
        _without("response.content_part.added"),
        _without("response.output_text.delta"),
        _without_field("response.output_text.delta", "logprobs"),
        _without_field("response.function_call_arguments.delta", "item_id"),
        _without_field("response.completed", "sequence_number"),
        _with_other_id,
    ],
)
def test_the_judge_sees_what_breaks_clients(change: Any) -> None:
    """A stream with a known fault does not pass."""
    with pytest.raises((AssertionError, ValidationError, RuntimeError, IndexError, KeyError)):
        read_events(_altered(change))


def test_the_unaltered_stream_passes() -> None:
    """So it was the fault."""
    read_events(_altered(lambda event: [event]))


def test_a_part_event_becomes_done_without_changing_the_added_one() -> None:
    """The two share their fields, not the object."""
    part = {"type": "output_text", "text": ""}
    added = events.part_added("msg_1", 0, part)
    done = events.part_done("msg_1", 0, part)
    assert added["type"] == "response.content_part.added"
    assert done == {**added, "type": "response.content_part.done"}


def test_lifecycle_events_carry_the_response() -> None:
    """Clients want the object under ``response``, not in place of the event."""
    response = response_object(new_builder()._request, id="resp_1", created_at=1, status="in_progress")
    assert events.lifecycle("created", response) == {"type": "response.created", "response": response}
