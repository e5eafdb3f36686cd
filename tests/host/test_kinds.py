"""Calls of every kind on the real host: one answer, whole or streamed, which can be sent back as it came."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.host.scripted import Script, ScriptedHost
from tests.openai_oracle import read_events, read_response
from tests.sse import terminal_response

pytestmark = pytest.mark.contract

ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
RUN = {"type": "custom", "name": "run"}
UPDATE = {"type": "update_file", "path": "a.txt", "diff": "@@\n-a\n+é\n"}
SEARCH = {"type": "tool_search", "execution": "client"}
GROUP = {"type": "namespace", "name": "mcp__demo", "description": "Demo.", "tools": [ADD, RUN]}


@dataclass(frozen=True)
class Kind:
    """One kind: a tool, a call as the model writes it, the item that the client gets, and what the client answers."""

    tool: dict[str, Any]
    #: The name the model knows.
    name: str
    arguments: dict[str, Any]
    #: Without ``id``, ``call_id`` and ``status``.
    item: dict[str, Any]
    #: Without ``call_id``.
    output: dict[str, Any]
    told: str = "done"


KINDS = {
    "function": Kind(
        ADD,
        "add",
        {"a": 1},
        {"type": "function_call", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "output": "done"},
    ),
    "custom": Kind(
        RUN,
        "run",
        {"input": 'print("é")\n'},
        {"type": "custom_tool_call", "name": "run", "input": 'print("é")\n'},
        {"type": "custom_tool_call_output", "output": "done"},
    ),
    "function of a namespace": Kind(
        GROUP,
        "mcp__demo__add",
        {"a": 1},
        {"type": "function_call", "name": "add", "namespace": "mcp__demo", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "output": "done"},
    ),
    "custom tool of a namespace": Kind(
        GROUP,
        "mcp__demo__run",
        {"input": "1"},
        {"type": "custom_tool_call", "name": "run", "namespace": "mcp__demo", "input": "1"},
        {"type": "custom_tool_call_output", "output": "done"},
    ),
    "tool_search": Kind(
        SEARCH,
        "tool_search",
        {"query": "sums", "limit": 3},
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "sums", "limit": 3}},
        {"type": "tool_search_output", "execution": "client", "status": "completed", "tools": [ADD]},
        told="Found: add",
    ),
    "apply_patch": Kind(
        {"type": "apply_patch"},
        "apply_patch",
        UPDATE,
        {"type": "apply_patch_call", "operation": UPDATE},
        {"type": "apply_patch_call_output", "status": "completed", "output": "done"},
        told="completed: done",
    ),
    "shell": Kind(
        {"type": "shell", "environment": {"type": "local"}},
        "shell",
        {"commands": ["ls"]},
        {
            "type": "shell_call",
            "environment": {"type": "local"},
            "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
        },
        {
            "type": "shell_call_output",
            "output": [{"stdout": "done", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        told="done\n[exit code 0]",
    ),
    "local_shell": Kind(
        {"type": "local_shell"},
        "local_shell",
        {"command": ["ls", "-l"]},
        {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls", "-l"], "env": {}}},
        {"type": "local_shell_call_output", "output": "done"},
    ),
}
#: Calls that the model got wrong come as function calls, so that the client can tell it.
WRONG = {
    "apply_patch": ({"type": "apply_patch"}, {"path": "a.txt"}),
    "shell": ({"type": "shell"}, {"command": "ls"}),
    "local_shell": ({"type": "local_shell"}, {}),
    "get_weather": (ADD, {"city": "Rome"}),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def writes(name: str, arguments: dict[str, Any]) -> Script:
    """The model calls a tool, after some words."""
    text = f"Now.\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
    return Script([text[start : start + 3] for start in range(0, len(text), 3)])


def anonymous(item: dict[str, Any]) -> dict[str, Any]:
    """The item without what is new each time."""
    return {key: value for key, value in item.items() if key not in ("id", "call_id", "status")}


async def answers(host: ScriptedHost, **body: Any) -> list[dict[str, Any]]:
    """The response as a whole and from a stream, each as strictly valid as openai-python can tell."""
    whole = (await host.post(input="Go.", **body)).json()
    events = await host.stream(input="Go.", **body)
    read_response(whole)
    read_events(events)
    return [whole, terminal_response(events)]


@EVERY_KIND
async def test_whole_and_streamed_answers_are_one(kind: Kind) -> None:
    """The same items, with what was said before the call; only ids differ."""
    with ScriptedHost(writes(kind.name, kind.arguments)) as host:
        responses = await answers(host, tools=[kind.tool])
    for response in responses:
        message, item = response["output"]
        assert message["content"][0]["text"].strip() == "Now."
        assert anonymous(item) == kind.item
        assert item["status"] == "completed"
        assert item["call_id"].startswith("call_")


@EVERY_KIND
@pytest.mark.parametrize("chained", [False, True], ids=["replayed", "chained"])
async def test_what_was_sent_can_be_sent_back(kind: Kind, chained: bool) -> None:
    """The model sees its own call again, under the name it knows, and the client's answer behind it."""
    with ScriptedHost(writes(kind.name, kind.arguments), Script(["Fine."])) as host:
        response = (await host.post(input="Go.", tools=[kind.tool])).json()
        item = response["output"][1]
        output = {**kind.output, "call_id": item["call_id"]}
        if chained:
            body = {"previous_response_id": response["id"], "input": [output]}
        else:
            body = {"input": [{"role": "user", "content": "Go."}, *response["output"], output]}
        answer = await host.post(tools=[kind.tool], **body)
    assert answer.status_code == 200, answer.text
    user, turn, result = host.engine.calls[1].messages
    assert (user["role"], turn["content"].strip()) == ("user", "Now.")
    (made,) = turn["tool_calls"]
    assert made["function"] == {"name": kind.name, "arguments": kind.arguments}
    assert result == {"role": "tool", "tool_call_id": made["id"], "content": kind.told}
    offered = [tool["function"]["name"] for tool in host.engine.calls[1].tools or []]
    assert kind.name in offered
    # What a search has found is on offer from then on.
    assert ("add" in offered) is (kind.item["type"] == "tool_search_call" or kind.name == "add")


@pytest.mark.parametrize("name", WRONG)
async def test_a_call_that_went_wrong_is_a_function_call(name: str) -> None:
    """Nothing is lost: the client answers with an error, which reaches the model behind the call it wrote."""
    tool, arguments = WRONG[name]
    with ScriptedHost(writes(name, arguments), writes(name, arguments), Script(["Sorry."])) as host:
        for response in await answers(host, tools=[tool]):
            item = response["output"][1]
            assert anonymous(item) == {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}
        output = {"type": "function_call_output", "call_id": item["call_id"], "output": "wrong"}
        await host.post(input=[item, output], tools=[tool])
    turn, result = host.engine.calls[2].messages
    assert turn["tool_calls"][0]["function"] == {"name": name, "arguments": arguments}
    assert result["content"] == "wrong"


async def test_tools_that_came_with_an_item_are_called_as_what_they_are() -> None:
    """Also a turn later, when the item that brought them is only remembered."""
    brought = {"type": "additional_tools", "role": "developer", "tools": [GROUP]}
    script = writes("mcp__demo__run", {"input": "1"})
    with ScriptedHost(script) as host:
        first = (await host.post(input=[brought, {"role": "user", "content": "Go."}])).json()
        output = {"type": "custom_tool_call_output", "call_id": first["output"][1]["call_id"], "output": "done"}
        second = (await host.post(previous_response_id=first["id"], input=[output])).json()
    for response in (first, second):
        assert anonymous(response["output"][1]) == KINDS["custom tool of a namespace"].item
    for call in host.engine.calls:
        assert [tool["function"]["name"] for tool in call.tools or []] == ["mcp__demo__add", "mcp__demo__run"]


async def test_two_groups_with_one_bare_name() -> None:
    """Each call goes to the group that the model meant, even where joining gives one name twice."""
    groups = [
        {**GROUP, "name": "a", "tools": [{**ADD, "name": "b__add"}]},
        {**GROUP, "name": "a__b", "tools": [ADD]},
        {**GROUP, "name": "c", "tools": [ADD]},
    ]
    with ScriptedHost(Script(["Hi."])) as host:
        await host.post(input="hi", tools=groups)
        names = [tool["function"]["name"] for tool in host.engine.calls[0].tools or []]
    assert len(set(names)) == len(groups)
    found = []
    for name in names:
        with ScriptedHost(writes(name, {"a": 1})) as host:
            (whole, streamed) = await answers(host, tools=groups)
        assert anonymous(whole["output"][1]) == anonymous(streamed["output"][1])
        found.append((whole["output"][1]["namespace"], whole["output"][1]["name"]))
    assert found == [("a", "b__add"), ("a__b", "add"), ("c", "add")]


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


@pytest.mark.parametrize(
    "choice", [allowed("auto", ADD), allowed("required", ADD), {"type": "function", "name": "add"}]
)
@pytest.mark.parametrize("name", ["run", "made_up"])
async def test_a_call_that_is_not_allowed_never_reaches_the_client(choice: dict[str, Any], name: str) -> None:
    """The answer fails by name instead, streamed or not, and is not stored."""
    with ScriptedHost(writes(name, {"input": "1"})) as host:
        refused = await host.post(input="Go.", tools=[ADD, RUN], tool_choice=choice)
        events = await host.stream(input="Go.", tools=[ADD, RUN], tool_choice=choice)
        async with host.client() as client:
            stored = await client.get(f"/v1/responses/{terminal_response(events)['id']}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (500, "tool_call_not_allowed")
    failed = terminal_response(events)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "tool_call_not_allowed")
    assert all(item["type"] == "message" for item in failed["output"])
    assert not any("call" in str(event.data.get("item")) for event in events)
    assert all(call.finished for call in host.engine.calls), "the host would count it as cancelled"
    assert stored.status_code == 404


@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_tools_that_are_not_allowed_stay_in_the_prompt(mode: str) -> None:
    """So that the host's prefix cache serves it; allowed calls are calls, and an answer in words is an answer."""
    with ScriptedHost(writes("add", {"a": 1})) as host:
        for response in await answers(host, tools=[RUN, ADD], tool_choice=allowed(mode, ADD)):
            assert anonymous(response["output"][1]) == KINDS["function"].item
            assert response["tool_choice"] == allowed(mode, ADD)
        await host.post(input="Go.", tools=[RUN, ADD])
    *restricted, free = host.engine.calls
    for call in restricted:
        assert call.tools == free.tools
        (message,) = call.messages
        assert message["content"].startswith("Go.\n")
        assert "call only these now: add." in message["content"]
    assert free.messages == [{"role": "user", "content": "Go."}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "hosted",
    ["web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation", "mcp", "computer"],
)
async def test_a_hosted_tool_cannot_be_forced(hosted: str, stream: bool) -> None:
    """It is accepted beside others, and choosing it is a 400 that names the field, before any model work."""
    with ScriptedHost(Script(["Hi."])) as host:
        tools = [{"type": hosted}, ADD]
        refused = await host.post(input="hi", tools=tools, tool_choice={"type": hosted}, stream=stream)
        assert refused.status_code == 400
        assert not host.engine.calls
        assert (await host.post(input="hi", tools=tools)).status_code == 200
    error = refused.json()["error"]
    assert (error["param"], error["code"]) == ("tool_choice", "invalid_value")
    assert hosted in error["message"]
    assert [tool["function"]["name"] for tool in host.engine.calls[0].tools or []] == ["add"]
