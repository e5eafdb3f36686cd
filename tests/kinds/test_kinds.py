"""The tool kinds that come with us: what the model sees of them, and what their items are."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from responses_plugin.kinds.base import item_type
from responses_plugin.kinds.custom import CUSTOM, RawInputDecoder, read_input
from responses_plugin.kinds.function import FUNCTION
from responses_plugin.protocol.items import ToolOutput
from tests.reading import read_item

LARK = 'start: "*** Begin Patch" /(.|\\n)+/'


def shown(kind: Any, **tool: Any) -> Any:
    """The one function that a declared tool puts before the model."""
    (function,) = kind.functions(kind.tool.parse(tool, "tools[0]"))
    return function


def test_item_types_are_those_of_the_protocol() -> None:
    """Each kind has a call and an output of its own, which clients tell apart by type."""
    assert (FUNCTION.type, FUNCTION.call_type, FUNCTION.output_type) == (
        "function",
        "function_call",
        "function_call_output",
    )
    assert (CUSTOM.type, CUSTOM.call_type, CUSTOM.output_type) == (
        "custom",
        "custom_tool_call",
        "custom_tool_call_output",
    )


def test_an_output_model_names_its_type() -> None:
    """The author of a kind who forgets it hears of it by the name of the model."""

    class Vague(ToolOutput):
        type: str

    class Plain(ToolOutput):
        type: Literal["plain_output"]

    assert item_type(Plain) == "plain_output"
    with pytest.raises(AssertionError, match=r"Vague\.type must be a Literal"):
        item_type(Vague)


def test_a_function_is_shown_as_declared() -> None:
    """Name, description and parameters, the schema's nulls included."""
    parameters = {"type": "object", "properties": {"at": {"type": "string", "default": None}}}
    function = shown(FUNCTION, type="function", name="look", description="Look.", parameters=parameters, strict=True)
    assert (function.name, function.description, function.parameters) == ("look", "Look.", parameters)


def test_a_custom_tool_is_shown_as_a_function_of_one_string() -> None:
    """The model has no other way to write free text; the string is required."""
    function = shown(CUSTOM, type="custom", name="run", description="Run code.")
    assert (function.name, function.description) == ("run", "Run code.")
    assert function.parameters["required"] == ["input"]
    assert list(function.parameters["properties"]) == ["input"]
    assert function.parameters["properties"]["input"]["type"] == "string"


@pytest.mark.parametrize(("syntax", "definition"), [("lark", LARK), ("regex", "[a-z]+")])
@pytest.mark.parametrize("description", ["Edit files.", None])
def test_a_grammar_is_told_in_the_description(syntax: str, definition: str, description: str | None) -> None:
    """Nothing else tells the model what its input must look like; the tool's own words come first."""
    format = {"type": "grammar", "syntax": syntax, "definition": definition}
    told = shown(CUSTOM, type="custom", name="edit", description=description, format=format).description
    assert told.startswith(description or "The value")
    assert f"this {syntax} grammar" in told
    assert told.endswith(definition)


@pytest.mark.parametrize("format", [{}, {"format": None}, {"format": {"type": "text"}}])
def test_free_text_needs_no_words(format: dict[str, Any]) -> None:
    """A custom tool without a grammar is described by its own words alone."""
    assert shown(CUSTOM, type="custom", name="run", description="Run.", **format).description == "Run."


def test_a_call_is_the_arguments_that_the_model_wrote() -> None:
    """A function's are a string already; a custom call's input becomes the value of the one parameter."""
    assert FUNCTION.history_call
    assert CUSTOM.history_call
    call = {"type": "function_call", "call_id": "a", "name": "look", "arguments": '{"at": "sky"}'}
    assert FUNCTION.history_call(read_item(call)) == ("look", '{"at": "sky"}')
    custom = {"type": "custom_tool_call", "call_id": "a", "name": "run", "input": 'print("é")\n'}
    name, arguments = CUSTOM.history_call(read_item(custom))
    assert name == "run"
    assert json.loads(arguments) == {"input": 'print("é")\n'}


@pytest.mark.parametrize("kind", [FUNCTION, CUSTOM], ids=lambda kind: kind.type)
def test_items_survive_storage(kind: Any) -> None:
    """A call and its output are the same after a round through their wire form, unknown fields included."""
    payload = kind.output_item.payload
    call = {"type": kind.call_type, "id": "i", "call_id": "c", "name": "n", "namespace": "ns", payload: "{}", "x": [1]}
    parts = [{"type": "input_text", "text": "a", "x": 1}, {"type": "hologram", "y": None}]
    output = {"type": kind.output_type, "call_id": "c", "output": parts, "status": "completed", "name": "n"}
    for item in (call, output):
        parsed = read_item(item)
        assert read_item(parsed.wire()) == parsed
    assert read_item(call).wire() == call


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "*** Begin Patch"}', "*** Begin Patch"),
        ('{"patch": "*** Begin Patch"}', "*** Begin Patch"),
        (json.dumps({"input": json.dumps({"input": "a\nb"})}), "a\nb"),
        (json.dumps({"input": "```\na\nb\n```"}), "a\nb"),
        (json.dumps({"input": "```diff\na\n```\n"}), "a"),
        (json.dumps({"input": json.dumps({"input": "```js\n1+1\n```"})}), "1+1"),
        (json.dumps({"input": "```\r\na\r\nb\r\n```\r\n"}), "a\r\nb"),
        (json.dumps({"input": "```diff\r\na\n\r\n```"}), "a\n"),
        # Anything that may be meant as it is stays as it is.
        (json.dumps({"input": '{"query": "a"}'}), '{"query": "a"}'),
        (json.dumps({"input": "see ```a``` here"}), "see ```a``` here"),
        (json.dumps({"input": "```\na\n```\n```\nb\n```"}), "```\na\n```\n```\nb\n```"),
        (json.dumps({"input": "```\nnever closed"}), "```\nnever closed"),
        ("```\na\n```", "```\na\n```"),
        ('{"a": "1", "b": "2"}', '{"a": "1", "b": "2"}'),
    ],
)
def test_raw_input_is_freed_of_its_wrapping(arguments: str, text: str) -> None:
    """JSON around it, once or twice, and a fence around everything are taken off; nothing else is touched."""
    assert read_input(arguments) == text
    for length in (1, 3, len(arguments)):
        decoder = RawInputDecoder()
        streamed = "".join(decoder.feed(arguments[at : at + length]) for at in range(0, len(arguments), length))
        assert decoder.finish() == text
        if arguments != text:
            assert text.startswith(streamed)
