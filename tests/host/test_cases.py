"""Bugs that users of other Responses servers reported, as small cases on the real host.

``tests/data/cases.jsonl`` holds what was sent and what the model wrote; this file says what must come of it. Every
case runs twice, at once and streamed, and both answers must be the same.
"""

from __future__ import annotations

import ast
import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.host.scripted import SCRIPTED_MODEL, EngineCall, Script, ScriptedHost
from tests.images import image_bytes
from tests.sse import StreamEvent, joined_deltas, read_stream, terminal_response

pytestmark = pytest.mark.contract

CASES = {
    case["id"]: case
    for case in map(json.loads, Path(__file__).parents[1].joinpath("data/cases.jsonl").read_text().splitlines())
}

#: Cases that no test below sends, and why.
ELSEWHERE = {
    "comp-01": "the server does not compact yet: the trigger is a note to the model, and its answer an ordinary message",
    "disc-01": "needs a real connection: tests/host/test_disconnect.py",
}

LIST_FILES = '{"path": "."}'


@dataclass
class Run:
    """One case, sent once."""

    status: int
    body: dict[str, Any]
    events: list[StreamEvent] | None
    call: EngineCall | None

    @property
    def error(self) -> dict[str, Any]:
        return self.body["error"]

    @property
    def output(self) -> list[dict[str, Any]]:
        return self.body["output"]

    @property
    def types(self) -> list[str]:
        return [item["type"] for item in self.output]

    @property
    def text(self) -> str:
        """The text of all messages."""
        return "".join(part["text"] for item in self.output if item["type"] == "message" for part in item["content"])

    @property
    def messages(self) -> list[dict[str, Any]]:
        assert self.call is not None, f"the engine was not called: {self.body}"
        return self.call.messages

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.messages]

    @property
    def tools(self) -> list[str]:
        assert self.call is not None
        return [tool["function"]["name"] for tool in self.call.tools or []]

    @property
    def images(self) -> list[str]:
        parts = [
            part for message in self.messages if isinstance(message["content"], list) for part in message["content"]
        ]
        return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]

    def tool_texts(self) -> list[str]:
        return [message["content"] for message in self.messages if message["role"] == "tool"]


@dataclass
class _Setup:
    """What the request of a case refers to: the answer that came before."""

    response: dict[str, Any] = field(default_factory=dict)

    def fill_in(self, request: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(request)
        if self.response:
            text = text.replace("<id from setup>", self.response["id"])
            call_ids = [item["call_id"] for item in self.response["output"] if "call_id" in item]
            text = text.replace("<call_id from setup>", *call_ids[:1] or [""])
            text = text.replace("<call_id from the first answer>", *call_ids[:1] or [""])
        filled: dict[str, Any] = json.loads(text)
        return filled


def _script(case: dict[str, Any]) -> Script:
    pieces = case.get("model_chunks") or [case.get("model_output", "ok")]
    failing = case.get("engine_raises_after_chunk")
    return Script(
        pieces,
        finish_reason=case.get("model_finish_reason", "stop"),
        error=None if failing is None else RuntimeError("the engine broke"),
        error_after=failing or 0,
    )


async def run_case(case_id: str, *, stream: bool, **changes: Any) -> Run:
    """Send the case; ``changes`` are made to its request."""
    case = CASES[case_id]
    setup = case.get("setup")
    scripts = [_script({**setup, **setup["request"]})] if setup else []
    host = ScriptedHost(
        *scripts,
        _script(case),
        mllm=case.get("model_kind") != "text-only",
        tool_parser=case.get("tool_parser", "hermes"),
        reasoning_parser=case.get("reasoning_parser") or (setup or {}).get("reasoning_parser"),
    )
    with host:
        async with host.client() as client:
            before = _Setup()
            if setup:
                answer = await client.post("/v1/responses", json=_served(setup["request"]))
                streamed = setup["request"].get("stream")
                before.response = terminal_response(read_stream(answer.content)) if streamed else answer.json()
            request = {**before.fill_in(case["request"]), **changes}
            path = request.pop("_path", "/v1/responses")
            if (method := request.pop("_method", "POST")) != "POST":
                answer = await client.request(method, path)
                return Run(answer.status_code, answer.json(), None, None)
            answer = await client.post(path, json=_served(request) | {"stream": stream})
        calls = host.engine.calls[len(scripts) :]
    if stream and answer.status_code == 200:
        events = read_stream(answer.content)
        return Run(200, terminal_response(events), events, calls[0] if calls else None)
    return Run(answer.status_code, answer.json(), None, calls[0] if calls else None)


def _served(request: dict[str, Any]) -> dict[str, Any]:
    """The request for the model that is served; a case that asks for another one keeps it."""
    return request | ({"model": SCRIPTED_MODEL} if request.get("model") == "local-vlm" else {})


@pytest.fixture(params=[False, True], ids=["json", "sse"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def call(arguments: str = LIST_FILES, name: str = "list_files") -> dict[str, str]:
    return {"type": "function_call", "name": name, "arguments": arguments, "status": "completed"}


def without_ids(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("id", "call_id")}


# --- Images ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case_id", ["img-tool-01", "img-tool-02"])
async def test_images_of_a_tool_follow_its_text_in_a_user_turn(case_id, stream):
    """Each image reaches the engine as an image, right after the message of its call, and never as text."""
    run = await run_case(case_id, stream=stream)
    assert run.status == 200
    after_tools = [run.messages[index + 1] for index, role in enumerate(run.roles) if role == "tool"]
    assert all([part["type"] for part in message["content"]] == ["image_url"] for message in after_tools)
    assert len(run.images) == len(after_tools) == len(run.tool_texts())
    assert not any("base64" in text for text in run.tool_texts())


async def test_texts_of_a_tool_are_joined(stream):
    """An array of texts is one text, a line each; no Python object shows through."""
    run = await run_case("img-tool-04", stream=stream)
    assert run.tool_texts() == ["a.txt\nb.txt"]


async def test_a_text_model_is_told_that_an_image_was_not_shown(stream):
    """The history is replayed for ever, so an image in a tool output must not end the session."""
    run = await run_case("img-tool-05", stream=stream)
    assert run.status == 200
    assert run.roles == ["user", "assistant", "tool", "user"]
    assert "cannot see images" in run.tool_texts()[0]
    assert "base64" not in json.dumps(run.messages)


async def test_both_forms_of_an_image_url_are_read(stream):
    """A URL in an object is as good as a bare one."""
    run = await run_case("img-msg-01", stream=stream)
    assert [part["type"] for part in run.messages[0]["content"]] == ["text", "image_url"]
    assert run.images[0].startswith("data:image/png;base64,")


async def test_parts_of_a_message_keep_their_order(stream):
    """Text and images stay where the user put them."""
    run = await run_case("img-msg-02", stream=stream)
    assert [part["type"] for part in run.messages[0]["content"]] == ["text", "image_url", "text", "image_url", "text"]


async def test_an_image_and_tools_go_together(stream):
    """Declared tools do not cost the image its place."""
    run = await run_case("img-msg-04", stream=stream)
    assert len(run.images) == 1
    assert run.tools == ["run_code"]


@pytest.mark.parametrize(
    ("case_id", "param"),
    [
        ("img-dec-01", "input[0].content[1].image_url"),
        ("img-dec-02", "input[0].content[1].image_url"),
        ("file-01", "input[0].content[0]"),
    ],
)
async def test_what_cannot_be_read_is_refused_by_name(case_id, param, stream):
    """A 400 that names the part and does not repeat what was in it."""
    run = await run_case(case_id, stream=stream)
    assert (run.status, run.error["param"], run.error["type"]) == (400, param, "invalid_request_error")
    assert "EEpGSUYAAQ" not in run.error["message"]
    assert run.call is None


async def test_webp_is_an_image(stream):
    """Every format the host can open is accepted."""
    run = await run_case("img-dec-04", stream=stream)
    assert (run.status, len(run.images)) == (200, 1)


async def test_large_bodies_are_accepted(stream):
    """Two screenshots of 12 MB in the history are not too much."""
    # What follows the end of a PNG is none of its business.
    large = "data:image/png;base64," + base64.b64encode(image_bytes("red") + bytes(12 * 1024 * 1024)).decode()
    request = json.loads(json.dumps(CASES["size-01"]["request"]).replace("<data URL of ~12 MB>", large))
    run = await run_case("size-01", stream=stream, input=request["input"])
    assert (run.status, len(run.images)) == (200, 2)


# --- Tools -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case_id", "patch"),
    [
        ("cust-01", "*** Begin Patch\n*** Add File: hello.txt\n+hi\n*** End Patch"),
        ("cust-02", "*** Begin Patch\n*** Update File: a.txt\n-teh\n+the\n*** End Patch"),
        ("own-03", "*** Begin Patch\n*** End Patch"),
        # Ambiguous arguments are kept as the model wrote them: what looks like a command line may be anything.
        (
            "cust-04",
            json.dumps({"command": ["apply_patch", "*** Begin Patch\n*** Update File: a.txt\n+line\n*** End Patch"]}),
        ),
    ],
)
async def test_a_custom_tool_gets_its_raw_input(case_id, patch, stream):
    """A call of a custom tool is a custom_tool_call whose input is free text, in deltas that add up to it."""
    run = await run_case(case_id, stream=stream)
    (item,) = run.output
    assert without_ids(item) == {
        "type": "custom_tool_call",
        "name": "apply_patch",
        "input": patch,
        "status": "completed",
    }
    assert run.tools == ["apply_patch"]
    if run.events is not None:
        assert joined_deltas(run.events, "response.custom_tool_call_input.delta") == patch
        assert not any("function_call" in event.type for event in run.events)


async def test_tools_without_a_schema_have_an_empty_one(stream):
    """Templates and hosts expect an object schema."""
    run = await run_case("tool-04", stream=stream)
    assert run.call is not None
    for tool in run.call.tools or []:
        assert tool["function"]["parameters"] == {"type": "object", "properties": {}}
    assert run.tools == ["now", "now2"]


async def test_names_with_hyphens_are_names(stream):
    """A tool and a parameter with a hyphen come back as they were declared."""
    run = await run_case("tool-05", stream=stream)
    assert [without_ids(item) for item in run.output] == [call('{"unit-type": "C"}', "get-weather")]


async def test_tools_of_types_that_run_elsewhere_do_not_spoil_the_request(stream):
    """Hosted tools are accepted, and the model is offered what the client can run."""
    run = await run_case("tool-01", stream=stream)
    assert run.status == 200
    assert "list_files" in run.tools
    assert not {"web_search", "image_generation"} & set(run.tools)


async def test_calls_of_hosted_tools_in_the_history_are_shown(stream):
    """What a hosted tool once did stays readable for the model."""
    run = await run_case("tool-02", stream=stream)
    assert run.status == 200
    assert "local news" in json.dumps(run.messages)


async def test_tool_choice_none_means_no_tools(stream):
    """The template gets no tools, and what looks like a call is neither a call nor an answer."""
    run = await run_case("tool-06", stream=stream)
    assert run.tools == []
    assert run.types == ["message"]
    assert "tool_call" not in run.text


async def test_tool_choice_required_is_put_to_the_model(stream):
    """The host has no constraint for it, so the model is told; an answer in prose is passed on as it is."""
    run = await run_case("tool-08", stream=stream)
    assert run.tools == ["list_files"]
    assert "MUST call" in run.messages[0]["content"]
    assert run.text == "I see nothing."


async def test_missing_arguments_are_not_invented(stream):
    """A call without its required arguments is passed on: the client's error teaches the model."""
    run = await run_case("arg-04", stream=stream)
    assert [without_ids(item) for item in run.output] == [call("{}", "exec_command")]


async def test_tools_of_a_namespace_are_offered_and_called(stream):
    """Each under one name that has its namespace in it; the call comes back as the client declared it, in two fields."""
    run = await run_case("ns-01", stream=stream)
    assert run.tools == ["mcp__notes__search", "mcp__notes__add", "list_files"]
    assert [without_ids(item) for item in run.output] == [
        call('{"q": "tea"}', "search") | {"namespace": "mcp__notes__"}
    ]
    if run.events is not None:
        added = [event.data["item"] for event in run.events if event.type == "response.output_item.added"]
        assert [(item["name"], item["namespace"]) for item in added] == [("search", "mcp__notes__")]


async def test_an_empty_namespace_spoils_nothing(stream):
    """The other tools are offered as ever."""
    run = await run_case("ns-03", stream=stream)
    assert (run.status, run.tools, run.text) == (200, ["list_files"], "ok")


async def test_a_replayed_call_has_the_name_of_its_tool(stream):
    """The prompt's history speaks of the tools by the names that its list of tools has."""
    run = await run_case("ns-04", stream=stream)
    assert run.roles == ["user", "assistant", "tool", "user"]
    (made,) = run.messages[1]["tool_calls"]
    assert made["function"]["name"] == run.tools[0] == "mcp__notes__search"


async def test_tools_that_were_found_can_be_called(stream):
    """What a search of the client brought is offered from then on, and the search is an exchange like any other."""
    run = await run_case("ts-01", stream=stream)
    assert run.status == 200
    assert run.tools == ["tool_search", "create_event"]
    assert run.roles == ["user", "assistant", "tool", "user"]
    assert run.messages[1]["tool_calls"][0]["function"] == {"name": "tool_search", "arguments": {"query": "calendar"}}
    assert "create_event" in run.tool_texts()[0]


# --- History ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case_id", "messages"),
    [
        ("hist-01", [("user", "Hello"), ("assistant", "Hi, how can I help?"), ("user", "What did I say?")]),
        ("hist-02", [("user", "ok?"), ("assistant", "Yes."), ("user", "why?")]),
        (
            "hist-03",
            [("system", "Be brief."), ("user", "What is 2+2?"), ("assistant", "4"), ("user", "And 3+3?")],
        ),
        ("hist-04", [("user", "Do X."), ("assistant", "I can't do X."), ("user", "Then do Y.")]),
        ("role-02", [("system", "Be brief."), ("user", "hi")]),
        ("store-04", [("user", "hi"), ("assistant", "hello"), ("user", "and now?")]),
    ],
)
async def test_every_form_of_a_message_is_read(case_id, messages, stream):
    """Short forms, replayed output and refusals are the messages they stand for."""
    run = await run_case(case_id, stream=stream)
    assert [(message["role"], message["content"]) for message in run.messages] == messages


async def test_reasoning_of_the_history_goes_to_its_turn(stream):
    """A foreign blob says nothing; the summary beside it is the thought of the answer that follows."""
    run = await run_case("reas-01", stream=stream)
    assert run.messages[1] == {"role": "assistant", "content": "Done.", "reasoning_content": "plan"}


async def test_a_sealed_thought_can_be_replayed(stream):
    """A client that stores nothing here gets the thought sealed, and the seal alone brings it back to its turn."""
    first = await run_case("reas-03", stream=stream)
    assert first.types == ["reasoning", "message"]
    assert first.text.strip() == "answer"
    thought, answer = first.output
    assert thought["encrypted_content"]
    if first.events is not None:
        done = [event.data["item"] for event in first.events if event.type == "response.output_item.done"]
        assert done[0]["encrypted_content"] == thought["encrypted_content"]
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": thought["encrypted_content"]}
    question = CASES["reas-03"]["request"]["input"]
    again = await run_case("reas-03", stream=stream, input=[*question, sealed, answer, *question])
    assert again.messages[1]["reasoning_content"].strip() == "short plan"


async def test_a_stored_thought_stays_with_its_call(stream):
    """Chaining by id keeps the thought between a call and its result."""
    run = await run_case("own-05", stream=stream)
    assert run.roles == ["user", "assistant", "tool"]
    assert run.messages[1]["reasoning_content"] == "plan"


async def test_calls_and_results_keep_their_ids(stream):
    """Every result follows its call, an empty one included."""
    run = await run_case("pair-01", stream=stream)
    assert run.roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert [message["tool_call_id"] for message in run.messages if message["role"] == "tool"] == ["call_1", "call_2"]
    assert run.messages[1]["tool_calls"][0]["function"]["arguments"] == {"path": "."}
    assert run.tool_texts() == ["a.txt", ""]


async def test_parallel_calls_are_one_turn(stream):
    """Text and calls of one turn are one message, its results after it."""
    run = await run_case("pair-02", stream=stream)
    assert run.roles == ["user", "assistant", "tool", "tool"]
    assert run.messages[1]["content"] == "Checking."
    assert [tool_call["id"] for tool_call in run.messages[1]["tool_calls"]] == ["call_1", "call_2"]


async def test_a_result_without_its_call_becomes_a_note(stream):
    """A client that cut its history keeps its session, and no tool turn stands first in the prompt."""
    run = await run_case("pair-04", stream=stream)
    assert run.roles == ["system", "user"]
    assert "call_gone" in run.messages[1]["content"]
    assert "a.txt" in run.messages[1]["content"]


async def test_a_call_without_a_result_gets_one(stream):
    """An interrupted agent resumes: the open call is answered before the next user turn."""
    run = await run_case("pair-05", stream=stream)
    assert run.roles == ["user", "assistant", "tool", "user"]
    assert run.tool_texts() == ["[No output was recorded for this call]"]


async def test_every_form_of_an_empty_result_is_empty(stream):
    """Missing, null, an empty string and an empty array."""
    run = await run_case("pair-07", stream=stream)
    assert run.tool_texts() == ["", "", "", ""]


@pytest.mark.parametrize(
    ("case_id", "arguments"),
    [("arg-01", {}), ("arg-02", {"value": '{"path": "a.txt", "text": "hel'})],
)
async def test_odd_arguments_of_the_history_can_be_iterated(case_id, arguments, stream):
    """Templates iterate over arguments: empty ones are an empty object, broken ones keep their text."""
    run = await run_case(case_id, stream=stream)
    assert run.messages[1]["tool_calls"][0]["function"]["arguments"] == arguments


async def test_leading_system_messages_are_one_and_later_ones_stay(stream):
    """The prompt begins alike from turn to turn; what came later stays where it came."""
    run = await run_case("role-01", stream=stream)
    assert run.messages[0] == {"role": "system", "content": "You are a coding agent.\n\nPermissions: read only."}
    assert run.roles.count("system") == 1
    assert "<developer_message>\nMode: plan.\n</developer_message>" in json.dumps(run.messages[1:]).replace("\\n", "\n")
    run = await run_case("role-03", stream=stream)
    assert run.messages[0]["content"] == "You are a coding agent. <long stable text>"
    assert run.roles == ["system", "user", "assistant", "user"]
    assert "Context: 14:02" in run.messages[3]["content"]


# --- Answers ---------------------------------------------------------------------------------------------------------


# Older hosts stream a thought in pieces, tags and all, unless the tags are whole.
@pytest.mark.since("0.5.0")
async def test_markup_is_never_text_however_it_is_cut(stream):
    """A thought and a call, cut anywhere, are a thought and a call."""
    run = await run_case("sse-01", stream=stream)
    assert run.types == ["reasoning", "function_call"]
    assert run.output[0]["content"] == [{"type": "reasoning_text", "text": "plan"}]
    if run.events is not None:
        assert joined_deltas(run.events) == ""


async def test_a_call_has_all_of_its_events():
    """Clients wait for every one of them."""
    run = await run_case("sse-02", stream=True)
    assert run.events is not None
    assert [event.type for event in run.events][2:-1] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    added, delta, done, _ = [event.data for event in run.events][2:-1]
    assert added["item"]["arguments"] == ""
    assert delta["delta"] == LIST_FILES
    assert {"item_id", "output_index", "name", "arguments"} <= set(done)


async def test_two_calls_have_their_own_arguments(stream):
    """Two items with ids of their own; none loses its arguments to the other."""
    run = await run_case("sse-04", stream=stream)
    assert [without_ids(item) for item in run.output] == [call('{"path": "a"}'), call('{"path": "b"}')]
    assert len({item["id"] for item in run.output} | {item["call_id"] for item in run.output}) == 4


async def test_a_call_in_xml_is_a_call(stream):
    """What hides the markup does not hide it from the parser."""
    run = await run_case("sse-05", stream=stream)
    assert [without_ids(item) for item in run.output] == [call()]


async def test_a_thought_that_was_cut_off_is_a_thought(stream):
    """An answer cut off while thinking is incomplete reasoning, not a message that repeats it."""
    run = await run_case("sse-07", stream=stream)
    assert run.body["status"] == "incomplete"
    assert run.body["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [(item["type"], item["status"]) for item in run.output] == [("reasoning", "incomplete")]
    assert "<think>" not in json.dumps(run.output)


async def test_a_failure_is_named(stream):
    """An engine that breaks ends a stream with response.failed, and a request with a 500."""
    run = await run_case("sse-08", stream=stream)
    assert run.status == (200 if stream else 500)
    assert run.error["code"] == "server_error"
    if run.events is not None:
        assert run.body["status"] == "failed"
        assert joined_deltas(run.events).split() == ["Once", "upon"]


async def test_a_plain_answer_is_complete(stream):
    """The simplest request of all; the reader of the stream checks shape and numbering."""
    run = await run_case("sse-09", stream=stream)
    assert (run.body["status"], run.text) == ("completed", "Hello.")


async def test_a_closing_tag_alone_ends_a_thought(stream):
    """Some templates open the thought in the prompt."""
    run = await run_case("leak-02", stream=stream)
    assert run.types == ["reasoning", "message"]
    assert run.text == "answer"


async def test_structured_output_fits_its_schema(stream):
    """The text parses, and the format is echoed."""
    run = await run_case("fmt-01", stream=stream)
    assert json.loads(run.text) == {"name": "Ana", "age": 30}
    assert run.body["text"]["format"]["type"] == "json_schema"


async def test_thoughts_are_counted(stream):
    """Clients budget on the usage: reasoning tokens are counted where there was reasoning."""
    run = await run_case("own-04", stream=stream)
    assert run.body["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    assert run.types == ["reasoning", "message"]


# --- Requests and stored responses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case_id", ["val-02", "val-03"])
async def test_levels_nobody_knows_are_no_error(case_id, stream):
    """Efforts and verbosities come and go."""
    assert (await run_case(case_id, stream=stream)).status == 200


async def test_a_probe_with_instructions_only_is_answered(stream):
    """Clients probe with an empty input and one token; a budget of nothing is refused by name."""
    run = await run_case("val-04", stream=stream)
    assert (run.status, run.body["status"]) == (200, "incomplete")
    for budget in (0, -1):
        run = await run_case("val-04", stream=stream, max_output_tokens=budget)
        assert (run.status, run.error["param"]) == (400, "max_output_tokens")


async def test_a_result_alone_continues_a_stored_call(stream):
    """The server remembers the call that the result answers."""
    run = await run_case("store-01", stream=stream)
    assert run.roles == ["user", "assistant", "tool"]
    assert run.tool_texts() == ["42"]


async def test_a_stored_response_can_be_read():
    """It is the object that was answered."""
    run = await run_case("store-03", stream=False)
    assert (run.status, run.body["object"], run.text) == (200, "response", "hello")


async def test_an_unknown_id_says_so(stream):
    """The host's own status for it, with the code that clients look for."""
    run = await run_case("store-05", stream=stream)
    assert (run.status, run.error["code"]) == (404, "previous_response_not_found")
    assert run.error["param"] == "previous_response_id"


async def test_an_unknown_model_is_refused_before_the_stream(stream):
    """Not after the 200 header."""
    run = await run_case("own-01", stream=stream)
    assert (run.status, run.error["code"], run.error["param"]) == (404, "model_not_found", "model")


# --- The cases themselves --------------------------------------------------------------------------------------------


def test_every_case_is_asserted():
    """Nobody adds a case, or deletes a test, without a word about it."""
    tests = [node for node in ast.parse(Path(__file__).read_text()).body if hasattr(node, "decorator_list")]
    strings = {node.value for test in tests for node in ast.walk(test) if isinstance(node, ast.Constant)}
    asserted = strings & CASES.keys()
    assert sorted(asserted | ELSEWHERE.keys()) == sorted(CASES)
    assert not asserted & ELSEWHERE.keys()
