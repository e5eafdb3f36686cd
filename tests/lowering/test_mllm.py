"""Messages for multimodal engines: the tool exchange is kept whole, everything else is left as it is."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_plugin.lowering.mllm import (
    build_mllm_message,
    keeps_tool_exchange,
    parse_arguments,
    restore_tool_exchange,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def call(arguments: Any = '{"city": "Paris"}', call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def calling(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [call()], **fields}


@pytest.mark.parametrize("empty", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_a_call_without_text_survives_with_empty_content(empty: dict[str, Any]) -> None:
    """An assistant message that only calls a tool keeps its calls and has ``""`` for content, however it was empty."""
    built = build_mllm_message(calling(**empty))
    assert built["content"] == ""
    assert [c["function"]["name"] for c in built["tool_calls"]] == ["get_weather"]


def test_arguments_become_a_mapping() -> None:
    """The JSON text of the arguments is a mapping afterwards, and nothing else of the call changes."""
    message = calling(content="Let me look.", reasoning_content="Weather needed.")
    message["tool_calls"].append(call('{"city": "Oslo"}', "call_2"))
    built = build_mllm_message(message)
    assert built["tool_calls"] == [call({"city": "Paris"}), call({"city": "Oslo"}, "call_2")]
    assert built["content"] == "Let me look."
    assert built["reasoning_content"] == "Weather needed."


@pytest.mark.parametrize(
    ("text", "mapping"),
    [
        ("{}", {}),
        ('{"a": 1, "b": [2]}', {"a": 1, "b": [2]}),
        ('"{\\"a\\": 1}"', {"a": 1}),  # encoded twice
        ("", {"value": ""}),
        ("look north", {"value": "look north"}),
        ('{"a": ', {"value": '{"a": '}),
        ("[1, 2]", {"value": [1, 2]}),
        ("null", {"value": None}),
        ('"text"', {"value": "text"}),
        ("[" * 100_000, {"value": "[" * 100_000}),
    ],
)
def test_arguments_that_are_no_object_are_put_under_value(text: str, mapping: dict[str, Any]) -> None:
    """Templates iterate arguments, so a mapping comes out whatever the model wrote, and nothing of it is lost."""
    assert parse_arguments(text) == mapping


@pytest.mark.parametrize("arguments", [{"city": "Paris"}, None])
def test_arguments_that_are_no_text_stay(arguments: Any) -> None:
    """Arguments that are a mapping already, or missing, are nobody's to change."""
    assert build_mllm_message(calling(tool_calls=[call(arguments)]))["tool_calls"] == [call(arguments)]


@pytest.mark.parametrize("odd", [{"id": "call_1"}, {"id": "call_1", "function": None}])
def test_a_call_without_a_function_stays(odd: dict[str, Any]) -> None:
    """What has no function has no arguments to read: it is passed on, not a reason to fail."""
    assert build_mllm_message(calling(tool_calls=[odd]))["tool_calls"] == [odd]


@pytest.mark.parametrize("empty", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_an_empty_tool_result_survives(empty: dict[str, Any]) -> None:
    """A tool that returned nothing still answers its call: the id stays and the content is ``""``."""
    assert build_mllm_message({"role": "tool", "tool_call_id": "call_1", **empty}) == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "",
    }


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "u"}}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "Hello.", "reasoning_content": "Greet."},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "user", "content": "Call it.", "tool_calls": [call()]},
        {"role": "tool", "tool_call_id": "call_1", "content": "19 degrees"},
    ],
)
def test_everything_else_is_passed_on_as_it_came(message: dict[str, Any]) -> None:
    """Byte for byte, the order of keys and parts included; an empty message is still there for the host to drop."""
    assert json.dumps(build_mllm_message(message)) == json.dumps(message)


@settings(deadline=None)
@given(
    arguments=st.text() | json_values.map(json.dumps) | json_values,
    content=st.none() | st.text(),
    reasoning=st.none() | st.text(),
)
def test_it_is_pure_and_settles_at_once(arguments: Any, content: str | None, reasoning: str | None) -> None:
    """The message that came in is unchanged, building again changes nothing, and arguments as text are a mapping."""
    message = calling(content=content, reasoning_content=reasoning, tool_calls=[call(arguments)])
    before = copy.deepcopy(message)
    built = build_mllm_message(message)
    assert message == before
    assert build_mllm_message(built) == built
    if isinstance(arguments, str):
        assert isinstance(built["tool_calls"][0]["function"]["arguments"], dict)


def lossy(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A host that takes over role and content, and drops messages without text."""
    return [{"role": m["role"], "content": m["content"]} for m in messages if m["content"]]


@pytest.mark.parametrize(
    "message",
    [
        build_mllm_message(calling(content="", reasoning_content="Weather needed.")),
        build_mllm_message(calling(content="Let me look.")),
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
        {"role": "tool", "tool_call_id": "call_1", "content": "19 degrees"},
        {"role": "user", "content": "Weather?"},
    ],
)
def test_what_a_host_dropped_is_put_back(message: dict[str, Any]) -> None:
    """Of a message of the exchange everything is there again, even when the host dropped all of it."""
    assert restore_tool_exchange(message, lossy([message])) == [message]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "", "reasoning_content": "Hm."},
        {"role": "tool", "content": ""},
    ],
)
def test_an_empty_message_outside_the_exchange_stays_dropped(message: dict[str, Any]) -> None:
    """The host's rule for genuinely empty messages is not ours to change."""
    assert restore_tool_exchange(message, lossy([message])) == []


def test_the_content_that_the_host_built_is_kept() -> None:
    """Only the exchange is put back: content in the host's own form for templates is not overwritten."""
    parts = [{"type": "text", "text": "19 degrees", "content": "19 degrees"}]
    message = {"role": "tool", "tool_call_id": "call_1", "content": "19 degrees"}
    assert restore_tool_exchange(message, [{"role": "tool", "content": parts}]) == [
        {"role": "tool", "content": parts, "tool_call_id": "call_1"}
    ]


@pytest.mark.parametrize(
    ("build", "keeps"),
    [
        (lambda messages: messages, True),
        (lossy, False),
        (lambda messages: [{**m, "tool_call_id": None} for m in messages], False),
        (lambda messages: [{**m, "tool_calls": []} for m in messages], False),
        (lambda messages: messages[:2], False),
    ],
)
def test_a_host_is_judged_by_what_it_keeps(build: Any, keeps: bool) -> None:
    """Calls and ids both have to come through."""
    assert keeps_tool_exchange(build) is keeps
