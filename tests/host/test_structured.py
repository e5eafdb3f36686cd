"""``text.format``: JSON that was checked, or a failure with a name; never prose with status 200."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from responses_plugin import service
from tests.host.scripted import Script, ScriptedHost
from tests.sse import joined_deltas, terminal_response

pytestmark = pytest.mark.contract

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
OBJECT: dict[str, Any] = {"type": "json_object"}
STRICT: dict[str, Any] = {"type": "json_schema", "name": "weather", "schema": SCHEMA, "strict": True}
LOOSE: dict[str, Any] = {"type": "json_schema", "name": "weather", "schema": SCHEMA}
FORMATS = pytest.mark.parametrize("wanted", [OBJECT, LOOSE, STRICT], ids=["object", "loose", "strict"])

GOOD = '{"city": "Köln", "degrees": 19}'
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "sky"}}</tool_call>'
HM = "<think>Hm.</think>"


def script(text: str) -> Script:
    half = len(text) // 2
    return Script([text[:half], text[half:]])


def chat_format(wanted: dict[str, Any]) -> dict[str, Any]:
    """The same for the chat endpoint."""
    if wanted["type"] == "json_object":
        return wanted
    return {"type": "json_schema", "json_schema": {key: value for key, value in wanted.items() if key != "type"}}


def text_of(response: dict[str, Any]) -> str:
    """The text of its only item, a message."""
    (message,) = response["output"]
    (part,) = message["content"]
    return str(part["text"])


# --- Answers that fit ------------------------------------------------------------------------------------------------


@FORMATS
@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here you are: {GOOD} Enjoy!",
        f"{GOOD}\n\n",
        GOOD.replace(" ", "\n  "),
        GOOD[:-1],
    ],
    ids=["bare", "fenced", "in prose", "spaced", "indented", "cut off"],
)
async def test_json_that_fits_is_the_answer(wanted: dict[str, Any], text: str) -> None:
    """The text is the JSON that the host finds and nothing else, the same streamed or not.

    What was asked for is echoed, since LangChain looks at it.
    """
    with ScriptedHost(script(text)) as host:
        plain = await host.post(input="hi", text={"format": wanted})
        events = await host.stream(input="hi", text={"format": wanted})
    assert plain.status_code == 200
    streamed = terminal_response(events)
    for response in (plain.json(), streamed):
        assert response["status"] == "completed"
        assert json.loads(text_of(response)) == json.loads(GOOD)
        echoed = response["text"]["format"]
        assert {key: echoed[key] for key in wanted} == wanted
    assert joined_deltas(events) == text_of(streamed) == text_of(plain.json())


@FORMATS
@pytest.mark.parametrize("stream", [False, True])
async def test_the_engine_is_held_to_the_format(wanted: dict[str, Any], stream: bool) -> None:
    """It gets what the chat endpoint gives it: the instruction, and the processor that lets nothing else through."""
    with ScriptedHost(script(GOOD)) as host:
        await host.post(input="hi", text={"format": wanted}, stream=stream)
        messages = [{"role": "user", "content": "hi"}]
        chat = await host.post(
            "/v1/chat/completions", messages=messages, response_format=chat_format(wanted), stream=stream
        )
        assert chat.status_code == 200
    ours, theirs = host.engine.calls
    assert ours.messages == theirs.messages
    assert set(ours.kwargs) == set(theirs.kwargs)
    processors = [
        [type(processor) for processor in call.kwargs.get("logits_processors") or ()] for call in (ours, theirs)
    ]
    assert processors[0] == processors[1]


async def test_thinking_comes_before_the_json() -> None:
    """A thought is an item of its own and not part of what must be JSON."""
    with ScriptedHost(script(f"<think>Köln it is.</think>{GOOD}"), reasoning_parser="qwen3") as host:
        plain = (await host.post(input="hi", text={"format": OBJECT})).json()
        streamed = terminal_response(await host.stream(input="hi", text={"format": OBJECT}))
    for response in (plain, streamed):
        thought, message = response["output"]
        assert thought["content"][0]["text"] == "Köln it is."
        assert json.loads(message["content"][0]["text"]) == json.loads(GOOD)


# --- Answers that do not ---------------------------------------------------------------------------------------------


UNFIT = pytest.mark.parametrize("text", ["It is 19 degrees in Köln.", "", "[1]"])


@FORMATS
@UNFIT
async def test_what_is_not_such_json_is_a_failure(
    wanted: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host checks the answer and refuses it; so do we, by a name of its own, and nothing is stored.

    A stream that has begun before the host has seen all of the answer ends with it.
    """
    monkeypatch.setattr(service, "_REFUSAL_SECONDS", 0)
    with ScriptedHost(script(text)) as host:
        plain = await host.post(input="hi", text={"format": wanted})
        events = await host.stream(input="hi", text={"format": wanted})
        async with host.client() as client:
            stored = await client.get(f"/v1/responses/{terminal_response(events)['id']}")
    assert plain.status_code == 500
    assert plain.json()["error"]["code"] == "invalid_structured_output"
    assert [event.type for event in events] == ["response.created", "response.in_progress", "error", "response.failed"]
    assert terminal_response(events)["error"]["code"] == "invalid_structured_output"
    assert terminal_response(events)["output"] == []
    assert stored.status_code == 404


# Older hosts begin every stream before the engine has said anything.
@pytest.mark.since("0.5.0")
@FORMATS
@UNFIT
async def test_a_stream_without_such_json_is_refused(
    wanted: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While there is a status to choose, the client need not read a stream to learn of it."""
    monkeypatch.setattr(service, "_REFUSAL_SECONDS", 20)
    with ScriptedHost(script(text)) as host:
        refused = await host.post(input="hi", text={"format": wanted}, stream=True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (500, "invalid_structured_output")


@pytest.mark.parametrize("text", ['{"city": "Köln"}', '{"city": "Köln", "degrees": "warm"}', '{"city": "Kö'])
async def test_json_of_another_schema_is_a_failure(text: str) -> None:
    """A client that parses into its own types relies on it."""
    with ScriptedHost(script(text)) as host:
        refused = await host.post(input="hi", text={"format": STRICT})
    assert (refused.status_code, refused.json()["error"]["code"]) == (500, "invalid_structured_output")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": "object", "required": "city"},
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": "(?<=a)b"},
        {"type": "array", "uniqueItems": True},
        {"not": {"type": "string"}},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"type": "string", "minLength": 5, "maxLength": 2},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("strict", [False, True])
async def test_a_schema_that_cannot_be_used_is_refused(schema: dict[str, Any], strict: bool) -> None:
    """400 before the prompt is read, and nothing is fetched; the engine would fail at its first token, with a 500."""
    wanted = {"type": "json_schema", "name": "x", "schema": schema, "strict": strict}
    with ScriptedHost(script(GOOD)) as host:
        refused = [await host.post(input="hi", text={"format": wanted}, stream=stream) for stream in (False, True)]
        assert not host.engine.calls
    for response in refused:
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["param"], error["code"]) == ("text.format.schema", "invalid_json_schema")
        assert error["message"].startswith("Invalid schema for text.format 'x': ")


async def test_no_schema_at_all_is_refused_beside_tools() -> None:
    """There nothing is compiled, but no answer would fit; what the compiler alone does not take is let through."""
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    with ScriptedHost(script(GOOD)) as host:
        for stream in (False, True):
            wanted: dict[str, Any] = {"type": "json_schema", "name": "x", "schema": {"type": "colour"}}
            refused = await host.post(input="hi", text={"format": wanted}, tools=[tool], stream=stream)
            assert refused.status_code == 400
            assert refused.json()["error"]["code"] == "invalid_json_schema"
        assert not host.engine.calls
        wanted["schema"] = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=b)c"}}}
        taken = await host.post(input="hi", text={"format": wanted}, tools=[tool])
        assert taken.status_code == 200


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "[1]"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "{}"),
        ({"$ref": "#/$defs/node", "$defs": {"node": {"items": {"$ref": "#/$defs/node"}}}}, "[[], [[]]]"),
        ({"type": "string", "format": "date-time", "description": "é"}, '"2026-12-01T00:00:00Z"'),
    ],
    ids=json.dumps,
)
async def test_what_clients_put_into_schemas_is_taken(schema: dict[str, Any], text: str) -> None:
    """Metaschemas, recursion, formats, and a schema that says nothing."""
    wanted = {"type": "json_schema", "name": "x", "schema": schema}
    with ScriptedHost(script(text)) as host:
        answer = await host.post(input="hi", text={"format": wanted})
    assert text_of(answer.json()) == text


# --- With tools ------------------------------------------------------------------------------------------------------


@FORMATS
async def test_tools_stay_callable(wanted: dict[str, Any]) -> None:
    """The host takes tools or a format, and Codex sends both: the format is put into words, and calls are calls."""
    with ScriptedHost(script(CALL)) as host:
        plain = await host.post(input="hi", instructions="Be brief.", tools=[TOOL], text={"format": wanted})
        events = await host.stream(input="hi", tools=[TOOL], text={"format": wanted})
    for response in (plain.json(), terminal_response(events)):
        (item,) = response["output"]
        assert (item["type"], item["name"]) == ("function_call", "look")
        assert response["text"]["format"]["type"] == wanted["type"]
    call = host.engine.calls[0]
    assert [tool["function"]["name"] for tool in call.tools or ()] == ["look"]
    system = call.messages[0]
    assert system["role"] == "system"
    assert system["content"].startswith("Be brief.\n\n")
    assert "JSON" in system["content"]
    assert (json.dumps(SCHEMA) in system["content"]) is (wanted["type"] == "json_schema")


@FORMATS
async def test_words_before_a_call_need_not_fit(wanted: dict[str, Any]) -> None:
    """Only an answer without calls is the final one."""
    with ScriptedHost(script(f"Let me look. {CALL}")) as host:
        plain = await host.post(input="hi", tools=[TOOL], text={"format": wanted})
        events = await host.stream(input="hi", tools=[TOOL], text={"format": wanted})
    for response in (plain.json(), terminal_response(events)):
        assert response["status"] == "completed"
        message, item = response["output"]
        assert message["content"][0]["text"].strip() == "Let me look."
        assert (item["name"], json.loads(item["arguments"])) == ("look", {"at": "sky"})


@FORMATS
@pytest.mark.parametrize(
    "text", [GOOD, f"```json\n{GOOD}\n```", f"Hm.</think>{GOOD}"], ids=["bare", "fenced", "thought"]
)
async def test_a_final_answer_that_fits_is_the_json(wanted: dict[str, Any], text: str) -> None:
    """Beside tools as well: nothing but the JSON, after the thought if there is one."""
    with ScriptedHost(script(text), reasoning_parser="qwen3") as host:
        plain = await host.post(input="hi", tools=[TOOL], text={"format": wanted})
        events = await host.stream(input="hi", tools=[TOOL], text={"format": wanted})
    for response in (plain.json(), terminal_response(events)):
        assert response["status"] == "completed"
        assert json.loads(response["output"][-1]["content"][0]["text"]) == json.loads(GOOD)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        *(
            (wanted, text)
            for wanted in (OBJECT, LOOSE, STRICT)
            for text in ("Köln.", "", "[1]", HM, f"{HM}\n", CALL[:-30])
        ),
        # The host mends JSON that breaks off, and any object is one that was asked for.
        *((wanted, text) for wanted in (LOOSE, STRICT) for text in ('{"city": "Kö', '{"city": "Köln"}')),
    ],
)
async def test_a_final_answer_that_does_not_fit_is_a_failure(
    wanted: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same name as without tools, streamed or not; no message is done, and nothing is stored."""
    monkeypatch.setattr(service, "_REFUSAL_SECONDS", 0)
    with ScriptedHost(script(text), reasoning_parser="qwen3") as host:
        plain = await host.post(input="hi", tools=[TOOL], text={"format": wanted})
        events = await host.stream(input="hi", tools=[TOOL], text={"format": wanted})
        async with host.client() as client:
            stored = await client.get(f"/v1/responses/{terminal_response(events)['id']}")
    assert (plain.status_code, plain.json()["error"]["code"]) == (500, "invalid_structured_output")
    failed = terminal_response(events)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "invalid_structured_output")
    assert all(item["type"] == "reasoning" for item in failed["output"])
    assert stored.status_code == 404


@FORMATS
async def test_a_final_answer_that_was_cut_off_is_incomplete(wanted: dict[str, Any]) -> None:
    """The status says so already; half an answer is none that could fit."""
    cut = replace(script(GOOD[:12]), finish_reason="length")
    with ScriptedHost(cut) as host:
        plain = await host.post(input="hi", tools=[TOOL], text={"format": wanted})
        events = await host.stream(input="hi", tools=[TOOL], text={"format": wanted})
    for response in (plain.json(), terminal_response(events)):
        assert (response["status"], text_of(response)) == ("incomplete", GOOD[:12])


@FORMATS
async def test_tools_that_may_not_be_called_give_way(wanted: dict[str, Any]) -> None:
    """``tool_choice: none`` leaves the format to the host, with all its checks."""
    with ScriptedHost(script(GOOD), script("prose")) as host:
        good = await host.post(input="hi", tools=[TOOL], tool_choice="none", text={"format": wanted})
        bad = await host.post(input="hi", tools=[TOOL], tool_choice="none", text={"format": wanted})
    assert json.loads(text_of(good.json())) == json.loads(GOOD)
    assert bad.json()["error"]["code"] == "invalid_structured_output"
    assert host.engine.calls[0].tools is None
