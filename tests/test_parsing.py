"""Bodies → typed values: every legal form is read, nulls are absent, and each mistake is a 400 that names its place."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from responses_plugin.hookspecs import hookimpl
from responses_plugin.parsing import parse_body
from responses_plugin.plugins import load_plugins
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.items import Item, ItemReference, Message
from tests.images import data_url
from tests.reading import call, encode, error_of, image, lower_body, output, read, read_item, refusal, text, user

# --- Legal forms ----------------------------------------------------------------------------------------------------


def test_a_string_is_one_user_message() -> None:
    """The short form of the most common request."""
    _, (entry,) = read({"model": "m", "input": "hi"})
    assert (entry.item, entry.path) == (Message(role="user", content="hi"), "input[0]")


def test_items_know_their_place() -> None:
    """Errors that come later, while lowering, still have to name it."""
    _, entries = read({"model": "m", "input": [user("a"), call("c"), output("c")]})
    assert [entry.path for entry in entries] == ["input[0]", "input[1]", "input[2]"]
    assert [entry.item.type for entry in entries] == ["message", "function_call", "function_call_output"]


@pytest.mark.parametrize(
    "raw", [{"id": "rs_1"}, {"type": None, "id": "rs_1"}, {"type": "item_reference", "id": "rs_1"}]
)
def test_a_reference_is_read_with_and_without_a_type(raw: dict[str, Any]) -> None:
    """An id alone can only refer to an item."""
    item = read_item(raw)
    assert isinstance(item, ItemReference)
    assert item.id == "rs_1"


def test_unknown_fields_are_kept() -> None:
    """Newer clients send what this server has not heard of; it survives storage, and the host may know it."""
    body = {
        "model": "m",
        "input": [{**user([{**text("hi"), "shade": "x"}]), "mood": [1]}],
        "top_k": 5,
        "client_metadata": {"a": None},
    }
    context, (entry,) = read(body)
    assert context.request.extra == {"top_k": 5, "client_metadata": {"a": None}}
    assert entry.item.wire() == body["input"][0]  # type: ignore[index]  # it is a list


def test_nulls_are_absent_at_every_level() -> None:
    """Clients that dump their models send every field they know."""
    full = {
        "model": "m",
        "input": [
            {
                "type": "message",
                "id": None,
                "role": "user",
                "status": None,
                "content": [{**text("hi"), "annotations": None}],
            },
            {"type": None, "role": "assistant", "content": None, "phase": None},
            {"type": "message", "role": "user", "content": [image(data_url("red"), detail=None, file_id=None)]},
            {
                "type": "reasoning",
                "id": None,
                "summary": None,
                "content": None,
                "encrypted_content": None,
                "status": None,
            },
            {**call("c"), "id": None, "namespace": None, "status": None, "arguments": None},
            {**output("c", None), "id": None, "status": None},
            {"type": "custom_tool_call", "id": None, "call_id": "d", "name": "n", "namespace": None, "input": None},
        ],
        "tools": [
            {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None},
            {
                "type": "custom",
                "name": "n",
                "description": None,
                "format": {"type": None, "syntax": None, "definition": None},
            },
        ],
        "text": {"format": {"type": None, "name": None, "schema": None, "strict": None}, "verbosity": None},
        "reasoning": {"effort": None, "summary": None},
        "tool_choice": {"type": "function", "name": "f", "mode": None, "tools": None, "namespace": None},
        **dict.fromkeys(
            [
                *("instructions", "parallel_tool_calls", "stream", "store", "previous_response_id", "conversation"),
                *(
                    "temperature",
                    "top_p",
                    "max_output_tokens",
                    "max_tool_calls",
                    "metadata",
                    "truncation",
                    "background",
                ),
                *("include", "top_logprobs", "service_tier", "user", "safety_identifier", "prompt_cache_key", "top_k"),
            ]
        ),
    }

    def without_nulls(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_nulls(element) for key, element in value.items() if element is not None}
        return [without_nulls(element) for element in value] if isinstance(value, list) else value

    assert lower_body(full) == lower_body(without_nulls(full))
    context, _ = read(full)
    assert context.request.wire().keys() == {"model", "input", "tools", "tool_choice", "text", "reasoning"}


def test_nulls_inside_json_values_mean_something() -> None:
    """A schema's default may be null, and so may a value in metadata or in a template's options."""
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "default": None, "enum": [None]}}}
    body = {
        "model": "m",
        "input": "hi",
        "tools": [{"type": "function", "name": "f", "parameters": schema}],
        "metadata": {"a": None},
        "chat_template_kwargs": {"a": None},
    }
    chat, _ = lower_body(body)
    assert chat["tools"][0]["function"]["parameters"] == schema
    assert chat["chat_template_kwargs"] == {"a": None}
    assert read(body)[0].request.metadata == {"a": None}
    format = {"type": "json_schema", "name": "n", "schema": schema}
    chat, _ = lower_body({"model": "m", "input": "hi", "text": {"format": format}})
    assert chat["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}, {"id": "conv_1", "more": None}])
def test_a_conversation_is_an_id_or_an_object(conversation: Any) -> None:
    """Both forms mean the same."""
    assert read({"model": "m", "input": "hi", "conversation": conversation})[0].request.conversation_id == "conv_1"


def test_a_background_request_is_read() -> None:
    """A client that would poll finds the answer complete."""
    assert read({"model": "m", "input": "hi", "background": True})[0].request.background


# --- Bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"model=m",
        b'{"model": "m", "input": "\xed\xa0\x80"}',
        b'{"model": "m", "input": NaN}',
        b'{"model": "m", "input": "a\nb"}',
        b'{"model": "m", "input": "\\u12"}',
        b'{"model": "m", "input": "hi", "x": ' + b"1" * 5000 + b"}",
        b'{"model": "m", "input": "hi", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model": "m", "input": "\\ud800", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    """With a code of its own and no place, since there is none; also what is JSON beyond all reason."""
    error = refusal(body)
    assert (error.status, error.param, error.code) == (400, None, "invalid_json")
    assert len(error.message) < 200


@pytest.mark.parametrize("body", [b"[]", b'"hi"', b"5", b"null", b"true"])
def test_a_body_is_an_object(body: bytes) -> None:
    """JSON of another type holds no request."""
    error = refusal(body)
    assert (error.status, error.param, error.code) == (400, None, "invalid_type")


@pytest.mark.parametrize(
    ("sent", "read_as"),
    [
        (r"\ud83d\ude00", "😀"),
        (r"\ud83d", "\ufffd"),
        (r"cut \ud83d", "cut \ufffd"),
        (r"\ude00 cut", "\ufffd cut"),
        (r"\uD83D\n\u0041", "\ufffd\nA"),
        (r"\ud83d\ud83d\ude00\ude00", "\ufffd😀\ufffd"),
        (r"\\ud83d\\\ud83d \"\ud83d\"", '\\ud83d\\\ufffd "\ufffd"'),
    ],
)
def test_half_an_emoji_is_replaced(sent: str, read_as: str) -> None:
    """JavaScript cuts strings in the middle of a character; nothing can encode or tokenize what it leaves."""
    assert parse_body(f'{{"model": "m", "input": "{sent}"}}'.encode()).input == read_as


@given(st.lists(st.sampled_from([r"\ud83d", r"\ude00", r"\\", r"\n", "a", "u", "d83d", '\\"', "é", r"\uDBFF"])))
def test_halves_are_replaced_as_the_standard_parser_sees_them(pieces: list[str]) -> None:
    """Whatever surrounds them, escaped backslashes above all."""
    literal = f'"{"".join(pieces)}"'
    expected = json.loads(literal).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert parse_body(f'{{"model": "m", "input": {literal}}}'.encode()).input == expected


# --- Mistakes -------------------------------------------------------------------------------------------------------

MISSING, TYPE, VALUE = "missing_required_parameter", "invalid_type", "invalid_value"


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": None}, "model", MISSING),
        ({"model": 5}, "model", TYPE),
        ({"model": ""}, "model", VALUE),
        ({"input": 5}, "input", TYPE),
        ({"input": {}}, "input", TYPE),
        ({"instructions": []}, "instructions", TYPE),
        ({"tools": {}}, "tools", TYPE),
        ({"stream": "yes"}, "stream", TYPE),
        ({"store": 1}, "store", TYPE),
        ({"temperature": "1"}, "temperature", TYPE),
        ({"temperature": True}, "temperature", TYPE),
        ({"temperature": 2.5}, "temperature", VALUE),
        ({"top_p": -1}, "top_p", VALUE),
        ({"max_output_tokens": 0}, "max_output_tokens", VALUE),
        ({"max_output_tokens": -5}, "max_output_tokens", VALUE),
        ({"max_output_tokens": 1.5}, "max_output_tokens", TYPE),
        ({"top_logprobs": 21}, "top_logprobs", VALUE),
        ({"truncation": "maybe"}, "truncation", VALUE),
        ({"truncation": 5}, "truncation", TYPE),
        ({"metadata": []}, "metadata", TYPE),
        ({"include": "all"}, "include", TYPE),
        ({"include": ["a", 5]}, "include[1]", TYPE),
        ({"tool_choice": 5}, "tool_choice", TYPE),
        ({"tool_choice": []}, "tool_choice", TYPE),
        ({"tool_choice": {"type": []}}, "tool_choice.type", TYPE),
        ({"conversation": 5}, "conversation", TYPE),
        ({"conversation": ""}, "conversation", VALUE),
        ({"conversation": {}}, "conversation.id", MISSING),
        ({"conversation": {"id": None}}, "conversation.id", MISSING),
        ({"conversation": {"id": 5}}, "conversation.id", TYPE),
        ({"conversation": {"id": ""}}, "conversation.id", VALUE),
        ({"conversation": "c", "previous_response_id": "r"}, "previous_response_id", VALUE),
        ({"previous_response_id": {}}, "previous_response_id", TYPE),
        ({"text": "json"}, "text", TYPE),
        ({"text": {"format": "json"}}, "text.format", TYPE),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", VALUE),
        ({"text": {"format": {"type": []}}}, "text.format.type", TYPE),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema", MISSING),
        ({"text": {"format": {"type": "json_schema", "schema": "x"}}}, "text.format.schema", TYPE),
        ({"reasoning": "high"}, "reasoning", TYPE),
        ({"reasoning": {"effort": 5}}, "reasoning.effort", TYPE),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], param: str, code: str) -> None:
    """What is wrong with it is in the code, where it is in the param, both in the message."""
    error = refusal({"model": "m", "input": "hi", **fields})
    assert (error.status, error.param, error.code) == (400, param, code)
    assert f"'{param}'" in error.message


PICTURE = data_url("red")


@pytest.mark.parametrize(
    ("item", "param", "code"),
    [
        (5, "", TYPE),
        (None, "", TYPE),
        ("hi", "", TYPE),
        ({}, ".type", MISSING),
        ({"content": "hi"}, ".type", MISSING),
        ({"type": 5, "role": "user"}, ".type", TYPE),
        ({"type": ["message"]}, ".type", TYPE),
        ({"type": "message", "content": "hi"}, ".role", MISSING),
        ({"role": "robot", "content": "hi"}, ".role", VALUE),
        ({"role": None, "content": "hi"}, ".role", MISSING),
        ({"role": {}, "content": "hi"}, ".role", TYPE),
        ({"role": "user", "content": 5}, ".content", TYPE),
        ({"role": "user", "content": [5]}, ".content[0]", TYPE),
        ({"role": "user", "content": [text("a"), None]}, ".content[1]", TYPE),
        ({"role": "user", "content": [text("a"), {}]}, ".content[1].type", MISSING),
        ({"role": "user", "content": [text("a"), {"type": None}]}, ".content[1].type", MISSING),
        ({"role": "user", "content": [{"type": []}]}, ".content[0].type", TYPE),
        ({"role": "user", "content": [{"type": {}}]}, ".content[0].type", TYPE),
        ({"role": "user", "content": [{"type": "input_text"}]}, ".content[0].text", MISSING),
        ({"role": "user", "content": [{"type": "input_text", "text": None}]}, ".content[0].text", MISSING),
        ({"role": "user", "content": {"type": "input_text", "text": 5}}, ".content.text", TYPE),
        ({"role": "assistant", "content": [{"type": "refusal"}]}, ".content[0].refusal", MISSING),
        ({"role": "user", "content": [{"type": "input_image"}]}, ".content[0].image_url", MISSING),
        ({"role": "user", "content": [{"type": "input_image", "image_url": 5}]}, ".content[0].image_url", TYPE),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, ".content[0].image_url.url", MISSING),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": []}}]},
            ".content[0].image_url.url",
            TYPE,
        ),
        ({"role": "user", "content": [image(PICTURE, detail="ultra")]}, ".content[0].detail", VALUE),
        ({"role": "user", "content": [image(PICTURE, detail=5)]}, ".content[0].detail", TYPE),
        ({"role": "user", "content": "hi", "id": 5}, ".id", TYPE),
        ({"type": "item_reference"}, ".id", MISSING),
        ({"type": "item_reference", "id": 5}, ".id", TYPE),
        ({"type": "reasoning", "summary": "s"}, ".summary", TYPE),
        ({"type": "reasoning", "content": [{"type": "reasoning_text"}]}, ".content[0].text", MISSING),
        ({"type": "function_call", "name": "f"}, ".call_id", MISSING),
        ({"type": "function_call", "call_id": "c"}, ".name", MISSING),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}, ".arguments", TYPE),
        ({"type": "function_call_output", "output": "x"}, ".call_id", MISSING),
        ({"type": "function_call_output", "call_id": "c", "output": 5}, ".output", TYPE),
        ({"type": "function_call_output", "call_id": "c", "output": {"a": 1}}, ".output.type", MISSING),
        ({"type": "function_call_output", "call_id": "c", "output": [{"type": "text"}]}, ".output[0].text", MISSING),
        ({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": {}}, ".input", TYPE),
        ({"type": "custom_tool_call_output", "call_id": None}, ".call_id", MISSING),
        ({"type": "web_search_call", "id": 5}, ".id", TYPE),
    ],
)
def test_a_bad_item_is_named(item: Any, param: str, code: str) -> None:
    """With the item's place in the input, and the part's in the item."""
    error = refusal({"model": "m", "input": [user("hi"), item]})
    assert (error.status, error.param, error.code) == (400, f"input[1]{param}", code)
    assert f"'{error.param}'" in error.message


def test_an_error_says_what_was_expected_and_found() -> None:
    """In JSON's words, all the types that a field may have, and nothing of our own models."""
    mistakes: dict[str, dict[str, Any]] = {
        "tool_choice": {"tool_choice": 5},
        "conversation": {"conversation": True},
        "text": {"text": []},
        "max_output_tokens": {"max_output_tokens": 1.5},
        "input[0]": {"input": [None]},
        "input[0].content": {"input": [{"role": "user", "content": 5}]},
    }
    told = {param: refusal({"model": "m", "input": "hi", **fields}).message for param, fields in mistakes.items()}
    assert told == {
        "tool_choice": "Invalid type for 'tool_choice': expected a string or an object, but got an integer instead.",
        "conversation": "Invalid type for 'conversation': expected a string or an object, but got a boolean instead.",
        "text": "Invalid type for 'text': expected an object, but got an array instead.",
        "max_output_tokens": "Invalid type for 'max_output_tokens': expected an integer, but got a number instead.",
        "input[0]": "Invalid type for 'input[0]': expected an object, but got null instead.",
        "input[0].content": (
            "Invalid type for 'input[0].content': expected a string or an array of parts, but got an integer instead."
        ),
    }


def test_an_error_never_echoes_what_was_sent() -> None:
    """It may be megabytes, or a secret."""
    secret = "s3cret" * 1000
    for fields in (
        {"model": [secret]},
        {"tool_choice": [secret]},
        {"input": [{"role": secret, "content": "hi"}]},
        {"input": [user([{"type": "input_text", "text": [secret]}])]},
        {"input": [user([image(secret)])]},
    ):
        assert "s3cret" not in refusal({"model": "m", "input": "hi", **fields}).message


# --- Anything -------------------------------------------------------------------------------------------------------

#: Every character, half emojis included, and the words that our own code looks for.
WORDS = [
    *("user", "assistant", "system", "developer", "message", "function_call", "function_call_output", "reasoning"),
    *("custom_tool_call", "custom_tool_call_output", "item_reference", "input_text", "input_image", "output_text"),
    *("refusal", "input_file", "image_url", "video_url", "function", "custom", "allowed_tools", "required", "none"),
    *("tool_search_call", "tool_search_output", "apply_patch_call", "apply_patch_call_output", "shell_call"),
    *("shell_call_output", "local_shell_call", "local_shell_call_output", "additional_tools", "agent_message"),
    *("computer_call_output", "image_generation_call", "namespace", "tool_search", "shell", "client", "local"),
    *("json_schema", "grammar", "auto", "c", PICTURE, "https://example.com/a.png"),
]
FIELDS = [
    *("type", "role", "content", "text", "image_url", "url", "call_id", "name", "arguments", "output", "input", "id"),
    *("summary", "tools", "tool_choice", "model", "instructions", "format", "schema", "reasoning", "conversation"),
    *("parameters", "detail", "file_id", "mode", "definition", "stream", "temperature", "max_output_tokens", "stop"),
    *("operation", "action", "result", "environment", "execution", "outcome", "commands", "namespace", "author"),
    *("messages", "status", "previous_response_id", "metadata", "refusal", "encrypted_content", "effort", "wire"),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(st.characters(), max_size=5)
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(FIELDS) | st.text(max_size=4)
    return scalars | st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4)


json_values = nested(nested(nested(scalars)))
objects = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=5)
items = st.builds(lambda fields, type: {**fields, "type": type}, objects, st.sampled_from(WORDS))
bodies = st.builds(
    lambda fields, input: {**fields, "model": "m", "input": input}, objects, st.lists(items, max_size=3) | json_values
)


@settings(max_examples=200)
@given(json_values | bodies)
@example({"model": "m", "input": [{"role": "user", "content": [{"type": []}]}]})
@example({"model": "m", "input": "hi", "messages": [1]})
@example({"model": "m", "input": "hi", "temperature": 10**400})
def test_any_json_is_a_request_or_a_request_error(body: Any) -> None:
    """A client's mistake is never our failure: no other exception, and an error in the one shape."""
    for supports_images in (True, False):
        if error := error_of(lower_body, body, supports_images=supports_images):
            assert error.status == 400
            assert error.code
            assert error.param is None or isinstance(error.param, str)
            assert json.loads(json.dumps(error.body()))["error"].keys() == {"message", "type", "param", "code"}


@given(st.binary(max_size=40) | st.binary(max_size=20).map(lambda data: b'{"model":"m","input":"' + data + b'"}'))
def test_any_bytes_are_a_request_or_a_request_error(body: bytes) -> None:
    """Not even the encoding is taken on trust."""
    error = error_of(parse_body, body)
    assert error is None or error.status == 400


@settings(max_examples=100)
@given(bodies)
def test_parsing_leaves_the_body_alone_and_keeps_all_of_it(body: Any) -> None:
    """The request holds what was sent, for hooks to look at and for the echo, and items keep their fields."""
    sent = json.loads(encode(body))
    try:
        context, entries = read(body)
    except RequestError:
        return
    assert json.loads(encode(body)) == sent
    if isinstance(body["input"], list):
        for raw, entry in zip(sent["input"], entries, strict=True):
            assert raw.keys() - entry.item.wire().keys() <= {key for key, value in raw.items() if value is None}
    assert context.request.extra.keys() <= sent.keys()


# --- Hooks ----------------------------------------------------------------------------------------------------------


def test_a_plugin_reads_an_item_in_its_own_way() -> None:
    """It gets the JSON object as it was sent with the type filled in, and where it stands."""
    seen: list[Any] = []

    @hookimpl
    def responses_parse_input_item(item: Any, context: Any) -> Item | None:
        seen.append((copy.deepcopy(item), context.path))
        return Item(type="acme", id="x") if item["type"] == "message" else None

    plugin = SimpleNamespace(responses_parse_input_item=responses_parse_input_item)
    plugins = load_plugins([("acme", plugin)], discover=False)
    _, entries = read({"model": "m", "input": [{"role": "user", "content": None}, call("c")]}, plugins)
    assert [entry.item.type for entry in entries] == ["acme", "function_call"]
    assert seen == [
        ({"role": "user", "content": None, "type": "message"}, "input[0]"),
        (call("c"), "input[1]"),
    ]
