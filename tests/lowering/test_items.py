"""One item → chat messages: messages in every form, reasoning, calls, and whatever nobody knows."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from responses_plugin.kinds.toolset import host_name
from responses_plugin.lowering import notes
from tests.reading import call, chat_call, lower, output, read_item, user


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("type", [{}, {"type": "message"}, {"type": None}])
@pytest.mark.parametrize(
    "content", ["hi", [{"type": "input_text", "text": "hi"}], [{"type": "output_text", "text": "hi"}]]
)
def test_messages_are_read_in_every_form(role: str, type: dict[str, Any], content: Any) -> None:
    """With and without a type, as a string and as parts, whatever name the texts go by."""
    item = {**type, "role": role, "content": content}
    assert lower([user("?"), item])[1:] == [{"role": role, "content": "hi"}]


def test_an_output_message_is_read_as_it_was_returned() -> None:
    """Clients send back what they got, with ids, status, annotations, phases and a dump's nulls."""
    item = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "phase": None,
        "content": [
            {"type": "output_text", "text": "4", "annotations": [{"type": "url_citation", "url": "u"}], "logprobs": []},
            {"type": "output_text", "text": "5", "annotations": None, "logprobs": None, "parsed": None},
        ],
    }
    assert lower([user("2+2?"), item])[1:] == [{"role": "assistant", "content": "4\n5"}]


@pytest.mark.parametrize(
    ("fields", "thought"),
    [
        (
            {
                "content": [{"type": "reasoning_text", "text": "raw"}],
                "summary": [{"type": "summary_text", "text": "s"}],
            },
            "raw",
        ),
        ({"content": None, "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "blob"}, "s"),
        (
            {"content": [], "summary": [{"type": "summary_text", "text": "s"}, {"type": "summary_text", "text": "t"}]},
            "s\nt",
        ),
        (
            {"content": [{"type": "reasoning_text", "text": "a"}, {"type": "picture", "n": 1}]},
            'a\n{"type": "picture", "n": 1}',
        ),
    ],
)
def test_reasoning_goes_to_the_reasoning_slot(fields: dict[str, Any], thought: str) -> None:
    """The raw thought, or its summary where there is no more; never as text that the model said."""
    items = [user("?"), {"type": "reasoning", "id": "rs_1", **fields}, {"role": "assistant", "content": "ok"}]
    assert lower(items)[1:] == [{"role": "assistant", "content": "ok", "reasoning_content": thought}]


@pytest.mark.parametrize("fields", [{}, {"summary": [], "content": [], "encrypted_content": "blob", "status": None}])
def test_reasoning_that_nobody_can_read_is_dropped(fields: dict[str, Any]) -> None:
    """A foreign blob says nothing to this model."""
    assert lower([user("?"), {"type": "reasoning", **fields}]) == [{"role": "user", "content": "?"}]


def test_calls_keep_the_arguments_byte_for_byte() -> None:
    """Also malformed ones, which the model wrote that way; and nothing where nothing was sent is an empty object."""
    for arguments in ('{"path":"a"}', '{ "path" : "a" }', '{"path": "a", "text": "hel', "[1]"):
        assert lower([call("a", arguments=arguments)])[0]["tool_calls"] == [chat_call("a", arguments=arguments)]
    for missing in ({}, {"arguments": ""}, {"arguments": " "}, {"arguments": None}):
        item = {"type": "function_call", "call_id": "a", "name": "look", **missing}
        assert lower([item])[0]["tool_calls"] == [chat_call("a", arguments="{}")]


def test_a_custom_call_is_the_call_of_its_function() -> None:
    """The model called a function with one string, and must find its own call in the history."""
    patch = '*** Begin Patch\n+"é" \\ \t\n*** End Patch'
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "a", "name": "apply_patch", "input": patch}
    (made,) = lower([item, output("a")])[0]["tool_calls"]
    assert made["function"]["name"] == "apply_patch"
    assert json.loads(made["function"]["arguments"]) == {"input": patch}
    assert "é" in made["function"]["arguments"]


def test_names_the_host_refuses_are_mapped_in_the_history_too() -> None:
    """The call in the history and the tool that is offered go by the same name."""
    tools = [{"type": "function", "name": "files.list"}]
    made = lower([call("a", "files.list")], tools=tools)[0]["tool_calls"][0]
    assert made["function"]["name"] == host_name("files.list") != "files.list"


UNKNOWN: list[dict[str, Any]] = [
    {"type": "telepathy_call", "id": "tp_1", "status": "completed", "action": {"type": "search", "query": "vllm"}},
    {"type": "acme:thing", "content": ["é", None, {"deep": 1}], "summary": 5, "output": {}, "role": "x", "name": []},
]


@pytest.mark.parametrize("item", UNKNOWN, ids=lambda item: item["type"])
def test_items_of_unknown_type_stay_as_a_labelled_note(item: dict[str, Any]) -> None:
    """In their place, with their type and all their fields but their identity; so that nothing vanishes."""
    before, note, after = lower([user("a"), item, user("b")])
    assert (before["content"], after["content"]) == ("a", "b")
    assert note["role"] == "user"
    label, _, as_json = note["content"].partition("\n")  # type: ignore[union-attr]  # a note is text
    assert label == f"[item of type {item['type']}]"
    assert json.loads(as_json) == {key: value for key, value in item.items() if key not in ("id", "status")}
    assert "é" in as_json or "é" not in str(item)


@pytest.mark.parametrize("item", UNKNOWN, ids=lambda item: item["type"])
def test_items_of_unknown_type_survive_storage(item: dict[str, Any]) -> None:
    """A store keeps the wire form, and reading it again gives the same item."""
    parsed = read_item(item)
    assert parsed.wire() == item
    assert read_item(parsed.wire()) == parsed


def test_unknown_types_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An operator wants to know; an agent sends the same history hundreds of times."""
    notes._log_once.cache_clear()
    with caplog.at_level(logging.WARNING, "responses_plugin"):
        for _ in range(2):
            lower([*UNKNOWN, *UNKNOWN])
    assert [record.getMessage() for record in caplog.records] == [
        f"items of type {item['type']!r} are shown to the model as JSON text" for item in UNKNOWN
    ]
