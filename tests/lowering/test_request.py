"""The chat request beside its messages: options, tools, formats and effort under the host's names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.images import data_url
from tests.reading import assistant, call, developer, image, lower, lower_body, output, refusal, user

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "default": None}}, "required": ["n"]}
TOOL = {"type": "function", "name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL = {"type": "function", "function": {name: TOOL[name] for name in ("name", "description", "parameters")}}


def chat(**fields: Any) -> dict[str, Any]:
    """The chat request of a body, without what is not set."""
    made, _ = lower_body({"model": "m", "input": "hi", **fields})
    return {name: value for name, value in made.items() if value is not None}


def system(**fields: Any) -> Any:
    """The text of the system message."""
    _, messages = lower_body({"model": "m", "input": "hi", **fields})
    return messages[0]["content"] if messages[0]["role"] == "system" else None


def test_a_plain_request_sets_nothing_else() -> None:
    """What a client does not say is the host's to decide."""
    assert chat() == {"model": "m", "stream": False}


def test_options_go_by_the_hosts_names() -> None:
    """Each option of the protocol that the chat path knows, under the name it has there."""
    made = chat(temperature=0, top_p=0.5, max_output_tokens=33)
    assert made == {"model": "m", "stream": False, "temperature": 0, "top_p": 0.5, "max_tokens": 33}


def test_a_stream_asks_for_usage() -> None:
    """The terminal response needs it; the host leaves it out of streams unless it is asked."""
    made = chat(stream=True, stream_options={"include_obfuscation": False})
    assert made == {"model": "m", "stream": True, "stream_options": {"include_usage": True}}


def test_fields_beyond_the_protocol_pass_through() -> None:
    """The host's own options work as on its chat endpoint; explicit nulls are absent."""
    extra = {"top_k": 5, "min_p": 0.1, "enable_thinking": True, "chat_template_kwargs": {"a": None}, "seed": 1}
    assert chat(**extra, repetition_penalty=None) == {"model": "m", "stream": False, **extra}


@pytest.mark.parametrize(("sent", "taken"), [("END", ["END"]), (["A", "B"], ["A", "B"])])
def test_stop_is_a_list_for_the_host(sent: Any, taken: list[str]) -> None:
    """Clients send one string or several."""
    assert chat(stop=sent)["stop"] == taken


def test_chat_messages_are_not_an_option() -> None:
    """A client that sends both has its conversation in ``input``; the other must not displace it."""
    assert "messages" not in chat(messages=[{"role": "user", "content": "other"}])


def test_tools_and_choice() -> None:
    """Tools in the chat form, and the choice as the host understands it."""
    made = chat(tools=[TOOL], tool_choice={"type": "function", "name": "look"})
    assert made["tools"] == [CHAT_TOOL]
    assert made["tool_choice"] == {"type": "function", "function": {"name": "look"}}


OTHER = {**TOOL, "name": "other"}
ALLOWED: dict[str, Any] = {"type": "allowed_tools", "tools": [{"type": "function", "name": "look"}]}


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_leave_the_prompt_as_it_is(mode: str) -> None:
    """All tools are on offer, and which may be called is said at the very end: all before it can come from a cache."""
    items = [user("hi"), call("a"), output("a")]
    free_chat, free = lower_body({"model": "m", "input": items, "tools": [OTHER, TOOL]})
    made, messages = lower_body(
        {"model": "m", "input": items, "tools": [OTHER, TOOL], "tool_choice": {**ALLOWED, "mode": mode}}
    )
    assert made == free_chat
    assert messages[:-1] == free[:-1]
    told = messages[-1]["content"].removeprefix(f"{free[-1]['content']}\n<developer_message>\n")
    assert told.startswith("Of your tools, call only these now: look.")
    assert ("at least one" in told) is (mode == "required")


@pytest.mark.parametrize(
    ("items", "roles"),
    [
        ([user("hi")], ["user"]),
        ([user([image(data_url("red"))])], ["user"]),
        ([user("hi"), call("a"), output("a", [image(data_url("red"))])], ["user", "assistant", "tool", "user"]),
        ([user("hi"), assistant("yes")], ["user", "assistant", "user"]),
        ([developer("hi")], ["system", "user"]),
    ],
)
def test_the_restriction_ends_the_last_turn(items: list[Any], roles: list[str]) -> None:
    """A turn of its own would end the exchange that the model is in, and its thoughts would be left out."""
    messages = lower(items, tools=[OTHER, TOOL], tool_choice=ALLOWED)
    assert [message["role"] for message in messages] == roles
    assert json.dumps(messages).count("call only these now") == 1
    assert "call only these now" in json.dumps(messages[-1])


def test_without_tools_there_is_no_choice() -> None:
    """The host is not asked to choose from nothing, also when all that was declared cannot be offered."""
    assert "tool_choice" not in chat(tool_choice="auto")
    assert "tools" not in chat(tools=[{"type": "web_search"}], tool_choice="none")


@pytest.mark.parametrize("format", [None, {}, {"type": "text"}, {"type": None}])
def test_plain_text_needs_no_response_format(format: Any) -> None:
    """Nor do options of the text that say nothing about its format."""
    assert "response_format" not in chat(text={"format": format, "verbosity": "low"})


def test_structured_output() -> None:
    """Any JSON object, or JSON of a schema, which is passed on as it is: nulls in it mean something."""
    assert chat(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    format = {"type": "json_schema", "name": "N", "schema": SCHEMA, "strict": True, "description": None}
    assert chat(text={"format": format})["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "N", "description": None, "schema": SCHEMA, "strict": True},
    }
    assert chat(text={"format": {"type": "json_schema", "schema": SCHEMA}})["response_format"]["json_schema"]["name"]


@pytest.mark.parametrize("tools", [[], [TOOL]])
def test_a_schema_has_to_be_there(tools: list[Any]) -> None:
    """With and without tools, before any model work."""
    error = refusal({"model": "m", "input": "hi", "tools": tools, "text": {"format": {"type": "json_schema"}}})
    assert (error.status, error.param, error.code) == (400, "text.format.schema", "missing_required_parameter")


def test_structured_output_beside_tools_is_asked_for_in_words() -> None:
    """The host refuses the pair, and clients send it: the model may call, and is told what its answer must be."""
    fields: dict[str, Any] = {
        "tools": [TOOL],
        "instructions": "You code.",
        "text": {"format": {"type": "json_schema", "name": "N", "schema": SCHEMA}},
    }
    made = chat(**fields)
    assert made["tools"] == [CHAT_TOOL]
    assert "response_format" not in made
    words = system(**fields)
    assert words.startswith("You code.\n\n")
    assert words.endswith(json.dumps(SCHEMA))
    assert "JSON object" in system(tools=[TOOL], text={"format": {"type": "json_object"}})


def test_structured_output_is_asked_for_once() -> None:
    """In words or as a response format, never both, never neither."""
    text = {"format": {"type": "json_object"}}
    assert system(text=text) is None
    assert system(text=text, tools=[{"type": "web_search"}]) is None
    # Tools that may not be called give way to the real thing.
    for choice in ("none", {"type": "allowed_tools", "mode": "auto", "tools": []}):
        made = chat(text=text, tools=[TOOL], tool_choice=choice)
        assert made["response_format"] == {"type": "json_object"}
        assert "tools" not in made
        assert system(text=text, tools=[TOOL], tool_choice=choice) is None


@pytest.mark.parametrize(
    ("effort", "taken"),
    [("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("xhigh", "high"), ("max", "high")],
)
def test_effort_is_the_nearest_level_that_models_know(effort: str, taken: str) -> None:
    """Clients send levels that no model was trained on."""
    assert chat(reasoning={"effort": effort})["reasoning_effort"] == taken


@pytest.mark.parametrize("reasoning", [None, {}, {"effort": None}, {"summary": "auto"}, {"effort": "ludicrous"}])
def test_no_effort_and_unknown_effort_are_the_models_default(reasoning: Any) -> None:
    """A level nobody knows is no reason to refuse a request."""
    assert chat(reasoning=reasoning) == {"model": "m", "stream": False}


def test_effort_none_switches_thinking_off() -> None:
    """Unless the client says otherwise in the host's own words, which win."""
    assert chat(reasoning={"effort": "none"})["enable_thinking"] is False
    assert chat(reasoning={"effort": "none"}, enable_thinking=True)["enable_thinking"] is True
    assert chat(reasoning={"effort": "low"}, reasoning_effort="xlow")["reasoning_effort"] == "xlow"
