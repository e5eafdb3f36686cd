"""Builders whose ids and clock a test can foretell, and generation events to feed them."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from responses_plugin.context import RequestContext
from responses_plugin.generation.builder import ResponseBuilder
from responses_plugin.generation.events import (
    CallArguments,
    CallFinished,
    CallStarted,
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
)
from responses_plugin.generation.sse import encode_event
from responses_plugin.kinds.toolset import parse_tools
from responses_plugin.parsing import parse_body
from responses_plugin.plugins import load_plugins
from responses_plugin.protocol.response import Usage
from tests.generation.cuts import pieces_of
from tests.sse import StreamEvent, read_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from responses_plugin.generation.items import OutputItemKind
    from responses_plugin.kinds.toolset import GeneratedCall
    from responses_plugin.protocol.response import Wire

PLUGINS = load_plugins(discover=False)
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "get_weather", "parameters": {"type": "object"}},
    {"type": "function", "name": "fs.read"},
    {"type": "custom", "name": "apply_patch"},
]
#: ``fs.read`` as the model is shown it.
FS_READ = parse_tools(TOOLS, PLUGINS.tool_kinds).functions[1].shown_as

USAGE = Usage(input_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=2)
FINISHED = Finished(USAGE)
TRUNCATED = Finished(USAGE, truncated=True)

CREATED_AT = 1_700_000_000
COMPLETED_AT = CREATED_AT + 5


def new_builder(choose_item: Callable[[GeneratedCall], OutputItemKind] | None = None, **body: Any) -> ResponseBuilder:
    """A builder for the request ``body``, to which a model, an input and the tools above are added."""
    request = parse_body(json.dumps({"model": "m", "input": "hi", "tools": TOOLS, **body}).encode())
    toolset = parse_tools(request.tools, PLUGINS.tool_kinds)
    context = RequestContext(request, PLUGINS.tool_kinds, PLUGINS.content_parts, toolset)
    ids = itertools.count()
    clock = iter([CREATED_AT, COMPLETED_AT])
    return ResponseBuilder(
        request,
        toolset,
        new_id=lambda prefix: f"{prefix}_{next(ids)}",
        now=lambda: next(clock),
        choose_item=choose_item or (lambda call: PLUGINS.build_output_item(call, context)),
    )


def run(builder: ResponseBuilder, events: Iterable[GenerationEvent]) -> list[Wire]:
    """All stream events of an answer, ``start`` included."""
    made = builder.start()
    for event in events:
        made += builder.feed(event)
    return made


def build(events: Iterable[GenerationEvent], **body: Any) -> list[Wire]:
    return run(new_builder(**body), events)


def read(made: Iterable[Wire]) -> list[StreamEvent]:
    """The events as a client reads them, framing, numbering and items checked."""
    return read_stream(b"".join(map(encode_event, made)))


def types(made: Iterable[Wire]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in made]


def call(name: str, *fragments: str) -> Sequence[GenerationEvent]:
    """A whole call."""
    return [CallStarted(name), *map(CallArguments, fragments), CallFinished()]


# --- Strategies --------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_json_arguments = st.dictionaries(texts, texts | st.integers(), max_size=3).map(json.dumps)
#: Payloads of a custom call that can be streamed as they end: what the model wrote in one string, or bare text.
_inputs = st.one_of(
    st.tuples(texts, texts).map(lambda pair: json.dumps({pair[0]: pair[1]})),
    texts.map(lambda text: f"*** {text}"),
    st.just("{}"),
)
_calls = st.one_of(
    st.tuples(st.sampled_from(["get_weather", FS_READ, "nobody_declared_this"]), _json_arguments | texts | st.just("")),
    st.tuples(st.just("apply_patch"), _inputs),
)
#: What a model emits: thoughts, texts, and calls as (name, arguments).
answers = st.lists(
    st.one_of(
        st.tuples(st.just("thought"), texts),
        st.tuples(st.just("text"), texts),
        st.tuples(st.just("call"), _calls),
    ),
    max_size=6,
)


@st.composite
def events_of(draw: st.DrawFn, answer: Sequence[tuple[str, Any]]) -> list[GenerationEvent]:
    """The answer as generation events, cut anywhere; the end of a call may go without saying."""
    events: list[GenerationEvent] = []
    for kind, value in answer:
        if kind == "call":
            name, arguments = value
            events.append(CallStarted(name))
            events += map(CallArguments, draw(pieces_of(arguments)))
            if draw(st.booleans()):
                events.append(CallFinished())
        else:
            delta = ReasoningDelta if kind == "thought" else TextDelta
            events += map(delta, draw(pieces_of(value)))
    return events
