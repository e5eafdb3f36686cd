"""The response object: every field of the protocol, the request echoed, types that strict clients take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import Response

from responses_plugin.parsing import parse_body
from responses_plugin.protocol.response import Usage, Wire, response_object
from tests.openai_oracle import read_response

#: What the published schemas require, with OpenAI's and Open Responses' together.
REQUIRED = {
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id"),
    *("instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p"),
    *("presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage"),
    *("max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata"),
    *("safety_identifier", "prompt_cache_key"),
}
#: Where null is not a value of the field for one of the two.
NEVER_NULL = {
    *("id", "object", "created_at", "status", "model", "output", "tools", "tool_choice", "truncation"),
    *("parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "temperature"),
    *("reasoning", "store", "background", "service_tier", "metadata"),
}


#: Fields of OpenAI's that we leave out, and why. A new one of its package belongs here or into the response.
LEFT_OUT = {
    "access_programs": "which program was in force at OpenAI",
    "image": "how OpenAI compressed images",
    "input_transformations": "what OpenAI removed from the input; nothing is removed here",
    "moderation": "results of OpenAI's moderation",
    "prompt_cache_diagnostics": "why OpenAI's cache did not serve a prompt",
    "prompt_cache_options": "what OpenAI's cache applied, in full",
    "tool_usage": "what tools used that OpenAI ran",
}


def response(**body: Any) -> Wire:
    """The response of a request, just begun."""
    request = parse_body(json.dumps({"model": "m", "input": "hi", **body}).encode())
    return response_object(request, id="resp_1", created_at=1_700_000_000, status="in_progress")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"temperature": None, "top_p": None, "reasoning": None, "tools": None, "text": None, "store": None},
        {"presence_penalty": None, "top_logprobs": None, "service_tier": None, "metadata": None, "truncation": None},
    ],
)
def test_every_field_is_there_whatever_was_sent(body: dict[str, Any]) -> None:
    """A request that says nothing, or null, still gives a whole object; strict clients take it."""
    made = response(**body)
    assert made.keys() >= REQUIRED
    assert {field for field in NEVER_NULL if made[field] is None} == set()
    read_response(made)


def test_every_field_of_openai_is_there_or_left_out_on_purpose() -> None:
    """A new field is noticed here before a client misses it."""
    assert set(Response.model_fields) - response().keys() == LEFT_OUT.keys()


def test_what_was_asked_is_echoed() -> None:
    """Clients read their own settings back: some will not parse structured output unless they find its format."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    asked = {
        "model": "another",
        "instructions": "Be brief.",
        "tool_choice": {"type": "custom", "name": "apply_patch"},
        "parallel_tool_calls": False,
        "max_tool_calls": 3,
        "max_output_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "top_logprobs": 2,
        "text": {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": schema}, "verbosity": "low"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "truncation": "auto",
        "store": False,
        "service_tier": "flex",
        "metadata": {"a": "b"},
        "user": "u",
        "safety_identifier": "s",
        "prompt": {"id": "pmpt_1", "variables": {"city": "Köln"}, "version": "2"},
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "previous_response_id": "resp_0",
    }
    tools = [{"type": "custom", "name": "apply_patch", "format": {"type": "text"}}, {"type": "web_search", "x": 1}]
    made = response(**asked, tools=tools)
    assert {field: made[field] for field in asked} == asked
    assert made["tools"] == tools
    read_response(made)


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_echoed_as_an_object(conversation: Any) -> None:
    """Whichever way it was given."""
    made = response(conversation=conversation)
    assert made["conversation"] == {"id": "conv_1"}
    read_response(made)


@pytest.mark.parametrize(
    ("text", "echoed"),
    [
        ({}, {"format": {"type": "text"}}),
        ({"verbosity": "low"}, {"verbosity": "low", "format": {"type": "text"}}),
        ({"format": {}}, {"format": {"type": "text"}}),
        ({"format": {"type": "json_object"}}, {"format": {"type": "json_object"}}),
    ],
)
def test_text_always_has_a_format_with_a_type(text: Any, echoed: Any) -> None:
    """Whatever of it was left out."""
    made = response(text=text)
    assert made["text"] == echoed
    read_response(made)


def test_functions_have_their_nullable_fields() -> None:
    """Strict clients want description, parameters and strict of every function; other tools stay as they were sent."""
    (tool,) = response(tools=[{"type": "function", "name": "f"}])["tools"]
    assert tool == {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}


def test_reasoning_has_both_fields() -> None:
    """Be they null."""
    assert response()["reasoning"] == {"effort": None, "summary": None}
    assert response(reasoning={"effort": "low"})["reasoning"] == {"effort": "low", "summary": None}


def test_the_request_is_not_changed() -> None:
    """Two responses of one request do not share what they were given."""
    request = parse_body(
        json.dumps({"model": "m", "input": "hi", "tools": [{"type": "function", "name": "f"}]}).encode()
    )
    before = request.model_dump()
    first, second = (response_object(request, id=id, created_at=1, status="completed") for id in ("a", "b"))
    assert first["output"] is not second["output"]
    assert request.model_dump() == before


@pytest.mark.parametrize(
    ("outcome", "field", "value"),
    [
        ({"status": "completed", "completed_at": 5, "usage": Usage(1, 2)}, "completed_at", 5),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "incomplete_details", None),
        ({"status": "failed", "error": {"code": "server_error", "message": "m"}}, "error", None),
    ],
)
def test_outcomes_are_of_the_types_clients_expect(outcome: dict[str, Any], field: str, value: Any) -> None:
    """Each way to end passes openai's model."""
    request = parse_body(b'{"model": "m", "input": "hi"}')
    made = response_object(request, id="resp_1", created_at=1, **outcome)
    assert made[field] == (outcome[field] if value is None else value)
    assert read_response(made).status == outcome["status"]


def test_usage() -> None:
    """The total is the sum, every detail is there, reasoning never exceeds the output it is part of."""
    usage = Usage(input_tokens=10, output_tokens=5, cached_tokens=4, cache_write_tokens=6).with_reasoning(3)
    assert usage.wire() == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 6},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 15,
    }
    assert usage.with_reasoning(7).reasoning_tokens == 5
