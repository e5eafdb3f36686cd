"""Dialects: OpenAI's is what everything is in, and Open Responses' is held against its own published schemas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_plugin.generation.events import Failed, ReasoningDelta, TextDelta
from responses_plugin.protocol.dialects import DIALECTS, OPENAI
from responses_plugin.protocol.errors import RequestError, server_error
from tests.generation.building import FINISHED, TRUNCATED, build, call, texts
from tests.open_responses_oracle import complaints_of_event, complaints_of_request, complaints_of_response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from responses_plugin.generation.events import GenerationEvent

OPEN_RESPONSES = DIALECTS["open-responses"]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "name": "get_weather", "parameters": SCHEMA}

#: What a request that keeps to the specification may hold, field by field.
FIELDS: dict[str, Sequence[Any]] = {
    "instructions": [None, "Be brief."],
    "temperature": [None, 0, 0.5],
    "top_p": [None, 0.5],
    "presence_penalty": [None, 1.5],
    "top_logprobs": [None, 0],
    "max_output_tokens": [None, 16],
    "max_tool_calls": [None, 1],
    "parallel_tool_calls": [None, False],
    "truncation": ["auto", "disabled"],
    "service_tier": ["auto", "flex"],
    "store": [True, False],
    "background": [False],
    "metadata": [None, {"a": "b"}],
    "safety_identifier": [None, "someone"],
    "prompt_cache_key": [None, "here"],
    "include": [["reasoning.encrypted_content"]],
    "reasoning": [None, {}, {"effort": None}, {"effort": "xhigh"}, {"effort": "none", "summary": "auto"}],
    "text": [
        None,
        {},
        {"format": None, "verbosity": "low"},
        {"format": {"type": "text"}},
        {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA}},
        {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA, "description": "A city.", "strict": True}},
    ],
    "tools": [[WEATHER], [{**WEATHER, "description": "Tells.", "strict": False}]],
    "tool_choice": [
        "none",
        "auto",
        "required",
        {"type": "function", "name": "get_weather"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]},
    ],
}
requests = st.fixed_dictionaries(
    {"tools": st.sampled_from(FIELDS["tools"])},
    optional={name: st.sampled_from(values) for name, values in FIELDS.items() if name != "tools"},
)
answers = st.tuples(
    st.lists(
        st.one_of(
            texts.map(lambda text: [ReasoningDelta(text)]),
            texts.map(lambda text: [TextDelta(text)]),
            texts.map(lambda text: call("get_weather", json.dumps({"city": text}))),
        ),
        max_size=4,
    ).map(lambda steps: [event for step in steps for event in step]),
    st.sampled_from([FINISHED, TRUNCATED, Failed("The engine broke.")]),
).map(lambda answer: [*answer[0], answer[1]])


@given(answers, requests)
@settings(max_examples=60)
def test_requests_of_the_specification_get_answers_of_the_specification(
    answer: list[GenerationEvent], body: dict[str, Any]
) -> None:
    """Whatever such a request asks for, and whatever the model does: every event is one that the schemas know."""
    assert complaints_of_request({"model": "m", "input": "hi", **body}) == []
    made = build(answer, **body)
    for event in made:
        assert complaints_of_event(OPEN_RESPONSES.event(event)) == []
    assert complaints_of_response(OPEN_RESPONSES.response(made[-1]["response"])) == []


def test_nothing_but_the_contradictions_is_changed() -> None:
    """Clients that read both find everything else where it was, numbers included; and OpenAI's dialect is untouched."""
    made = build([ReasoningDelta("Hm."), TextDelta("a"), *call("get_weather", "{}"), FINISHED], tools=[WEATHER])
    assert [OPENAI.event(event) for event in made] == made
    changed = [(old, new) for old in made if (new := OPEN_RESPONSES.event(old)) != old]
    assert [(old["type"], new["type"]) for old, new in changed] == [
        ("response.reasoning_text.delta", "response.reasoning.delta"),
        ("response.reasoning_text.done", "response.reasoning.done"),
    ]
    assert all({**new, "type": old["type"]} == old for old, new in changed)


def test_what_the_specification_has_no_word_for_is_sent_as_openai_does() -> None:
    """A client that declares a custom tool wants its call."""
    made = build([*call("apply_patch", "a"), FINISHED])
    types = [OPEN_RESPONSES.event(event)["type"] for event in made]
    assert "response.custom_tool_call_input.done" in types
    assert OPEN_RESPONSES.response(made[-1]["response"])["output"][0]["type"] == "custom_tool_call"


@pytest.mark.parametrize(
    ("error", "openai", "open_responses"),
    [
        (RequestError("Bad."), "invalid_request_error", "invalid_request"),
        (RequestError("Gone.", status=404), "invalid_request_error", "not_found"),
        (RequestError("Too much.", status=429), "invalid_request_error", "too_many_requests"),
        (server_error("Broken."), "server_error", "server_error"),
        (server_error("Busy.", status=503), "server_error", "server_error"),
    ],
)
def test_types_of_errors(error: RequestError, openai: str, open_responses: str) -> None:
    """They have names of their own; the rest of the error is the same."""
    for dialect, name in ((OPENAI, openai), (OPEN_RESPONSES, open_responses)):
        body = dialect.error(error.body(), error.status)
        assert body == {"error": {**error.body()["error"], "type": name}}


def test_openai_is_the_default() -> None:
    """The name that the command line offers first."""
    assert list(DIALECTS) == ["openai", "open-responses"]
    assert DIALECTS["openai"] is OPENAI
