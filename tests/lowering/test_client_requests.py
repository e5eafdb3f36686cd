"""What real clients send: every request parses and lowers, nothing of it is lost, and all is as it was reviewed.

``tests/data/lowered`` holds what they are lowered to, a file a client, to be read by people. After a change that is
meant to show there, write the files anew and review their diff::

    UPDATE_SNAPSHOTS=1 python -m pytest tests/lowering/test_client_requests.py
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin.kinds.toolset import host_name, shown_name
from responses_plugin.lowering.conversation import lower_conversation, require_input
from responses_plugin.lowering.request import lower_request
from responses_plugin.protocol.items import Entry, ItemReference
from tests.client_requests import ClientRequest, client_requests
from tests.lowering.conversations import images_of
from tests.reading import BUILTIN, read, read_item, reasoning, refusal, with_tools

if TYPE_CHECKING:
    from responses_plugin.lowering.messages import ChatMessage

SNAPSHOTS = Path(__file__).parent.parent / "data" / "lowered"

REQUESTS = {request.name: request for request in client_requests()}
VERCEL = "vercel-ai-6.0.326+ai-sdk-openai-3.0.141"
#: What is refused on purpose, and where and why: a file, and a request that says nothing (Codex warms a model up so,
#: and does not mind the refusal).
REFUSED = {
    f"{VERCEL}__file": ("input[0].content[1]", "unsupported_content_type"),
    "codex-0.171.0__oss_lmstudio__1of2": ("input", "missing_required_parameter"),
}
CREATING = [request for request in REQUESTS.values() if request.creates_response and request.name not in REFUSED]
#: Items for other endpoints: conversations and their items, compaction, token counts.
ELSEWHERE = [
    request
    for request in REQUESTS.values()
    if not request.creates_response and isinstance(request.body, dict) and {"items", "input"} & request.body.keys()
]
#: What the stored items are that clients refer to, by the prefix of their ids.
STORED: dict[str, Any] = {
    "rs": reasoning("Stored thought."),
    "ctc": {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"},
    "apc": {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "stored.txt"}},
    "ls": {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec", "command": ["stored"]}},
}
#: Fields that say nothing to a model: types and identities, how a client keeps and shows things, its own notes. Tools
#: are not said but offered, under names that their namespaces are part of.
SILENT = {
    *("type", "id", "status", "role", "phase", "detail", "annotations", "logprobs", "encrypted_content", "execution"),
    *("internal_chat_message_metadata_passthrough", "namespace", "tools"),
}

#: Codex's sessions of several requests.
SESSIONS: dict[str, list[ClientRequest]] = {}
for _request in CREATING:
    _session, _, _number = _request.scenario.rpartition("__")
    if _request.client.startswith("codex") and "of" in _number:
        SESSIONS.setdefault(_session, []).append(_request)
#: Those of several threads: one began anew after a compaction, one wrote down memories, one had a sub-agent.
THREADS = {"compact_auto": 2, "feat_memories": 2, "subagent": 2}

by_name = pytest.mark.parametrize("request_", CREATING, ids=lambda request: request.name)


def resolved(entry: Entry) -> Entry:
    """The entry, or the stored item that it refers to, as the service looks it up."""
    if not isinstance(entry.item, ItemReference):
        return entry
    return entry._replace(item=read_item({**STORED[entry.item.id.split("_")[0]], "id": entry.item.id}))


def lowered(body: Any) -> tuple[dict[str, Any], list[ChatMessage]]:
    """The chat request of a body and its messages."""
    context, entries = read(body)
    entries = [resolved(entry) for entry in entries]
    context = with_tools(context, entries)
    require_input(entries, context.request.instructions)
    return lower_request(context.request, context.toolset), lower_conversation(BUILTIN, entries, context)


def said(value: Any) -> Iterator[str]:
    """Every string in an item that is for the model."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from said(element)
    elif isinstance(value, dict):
        if value.get("type") == "reasoning" and value.get("content"):
            value = {**value, "summary": []}  # a short form of the content
        if value.get("type") in ("input_image", "image_url"):
            return
        for key, element in value.items():
            if key not in SILENT:
                yield from said(element)


def pictures(value: Any) -> Iterator[str]:
    """The URL of every image in an item."""
    if isinstance(value, list):
        for element in value:
            yield from pictures(element)
    elif isinstance(value, dict):
        if value.get("type") == "input_image":
            yield value["image_url"]
        for element in value.values():
            yield from pictures(element)


def heard(chat: dict[str, Any], messages: list[ChatMessage]) -> str:
    """All that reaches the model, once as text and once as JSON."""
    texts = [json.dumps([chat.get("tools"), messages], ensure_ascii=False)]
    for message in messages:
        content = message["content"]
        texts += [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        texts.append(message.get("reasoning_content", ""))
        for made in message.get("tool_calls", []):
            texts += [made["id"], made["function"]["name"], made["function"]["arguments"]]
        texts.append(message.get("tool_call_id", ""))
    return "\n".join(texts)


def assert_nothing_lost(body: Any, chat: dict[str, Any], messages: list[ChatMessage]) -> None:
    items = [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    items = [STORED[item["id"].split("_")[0]] if item.get("type") == "item_reference" else item for item in items]
    everything = heard(chat, messages)
    for text in map(str.strip, [*said(items), *said(body.get("instructions"))]):
        # A name that the host refuses is heard as another; a JSON text within JSON is escaped once more.
        forms = (text, host_name(text), json.dumps(text, ensure_ascii=False)[1:-1])
        assert any(form in everything for form in forms), text
    assert Counter(images_of(messages)) == Counter(pictures(items))


# --- All of them ----------------------------------------------------------------------------------------------------


def test_the_requests_are_all_there() -> None:
    """Nobody deletes a client's requests to make a test pass."""
    assert Counter(request.client for request in REQUESTS.values()) == {
        "codex-0.171.0": 82,
        "openai-agents-0.24.0": 39,
        "openai-python-3.57.0": 29,
        VERCEL: 22,
        "langchain-openai-1.7.4": 16,
        "openai-js-6.49.0": 5,
    }
    assert (len(CREATING), len(ELSEWHERE)) == (165, 8)


@by_name
def test_every_request_lowers_without_loss(request_: ClientRequest) -> None:
    """Each text, image, call and output of it reaches the model, and so do its instructions."""
    chat, messages = lowered(request_.body)
    assert messages
    assert_nothing_lost(request_.body, chat, messages)


@by_name
def test_every_call_is_followed_by_its_output(request_: ClientRequest) -> None:
    """As one exchange, whichever kind of tool it is; an output whose call was sent earlier is a note."""
    _, messages = lowered(request_.body)
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
        open_calls += [made["id"] for made in message.get("tool_calls", [])]
    assert not open_calls


@by_name
def test_functions_and_custom_tools_are_offered(request_: ClientRequest) -> None:
    """Each that is not to be searched for first, those that items bring along as well, with their schemas as declared."""
    chat, _ = lowered(request_.body)
    offered = {tool["function"]["name"]: tool["function"] for tool in chat.get("tools", [])}
    for name, tool in declared(request_.body):
        shown = offered[name]
        if tool["type"] == "function":
            assert shown["parameters"] == tool["parameters"]
        assert (tool.get("description") or "") in shown["description"]


def declared(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The functions and custom tools that are offered at once, by the names that a model sees."""
    items = body["input"] if isinstance(body["input"], list) else []
    searching = any(tool["type"] == "tool_search" for tool in body.get("tools", []))
    taken = set()
    for tool in [*body.get("tools", []), *(tool for item in items for tool in item.get("tools", []))]:
        namespace = tool["name"] if tool["type"] == "namespace" else None
        for member in tool["tools"] if namespace else [tool]:
            name = shown_name(member.get("name", member["type"]), namespace)
            found_later = searching and member.get("defer_loading")
            if member["type"] in ("function", "custom") and name not in taken and not found_later:
                yield name, member
            taken.add(name)


@pytest.mark.parametrize("request_", ELSEWHERE, ids=lambda request: request.name)
def test_items_for_other_endpoints_are_read_as_well(request_: ClientRequest) -> None:
    """Conversations, compaction and token counts take the same items; an empty list is none."""
    items = request_.body.get("items", request_.body.get("input"))
    body = {"model": "m", "input": items, "instructions": "Be brief."}
    chat, messages = lowered(body)
    assert_nothing_lost(body, chat, messages)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_by_name(name: str) -> None:
    """The few requests that cannot be answered get a 400 that says why."""
    error = refusal(REQUESTS[name].body)
    assert (error.status, error.param, error.code) == (400, *REFUSED[name])


@pytest.mark.parametrize("session", SESSIONS)
def test_turns_of_a_codex_session_are_appended(session: str) -> None:
    """Codex replays everything; what was lowered for one turn is the beginning of what is lowered for the next."""
    threads: list[list[ChatMessage]] = []
    for request in SESSIONS[session]:
        _, messages = lowered(request.body)
        # A turn continues the longest thread that it can.
        known = max((thread for thread in threads if messages[: len(thread)] == thread), key=len, default=None)
        if known is not None:
            threads.remove(known)
        threads.append(messages)
    assert len(threads) == THREADS.get(session, 1)


# --- As reviewed ----------------------------------------------------------------------------------------------------

#: The section of a snapshot that has each tool once, in full; the requests name them.
TOOLS = "all tools"


def snapshot(requests: list[ClientRequest]) -> dict[str, list[str]]:
    """The lines of each section of a client's file: the tools, then its requests.

    A request is its chat request, then a message a line. How many messages it begins with that the request before it
    began with as well is a number instead.
    """
    tools: dict[str, str] = {}
    sections: dict[str, list[str]] = {TOOLS: []}
    before: list[str] = []
    for request in requests:
        chat, messages = lowered(request.body)
        chat = {key: value for key, value in chat.items() if value is not None and key != "client_metadata"}
        if "tools" in chat:
            chat["tools"] = [named(tools, one_line(tool)) for tool in chat["tools"]]
        lines = [one_line(message) for message in messages]
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, lines, strict=False)))
        again = [f"{shared} as above"] if shared else []
        sections[request.scenario] = [one_line(chat), *again, *lines[shared:]]
        before = lines
    sections[TOOLS] = [f"{name} {tool}" for tool, name in tools.items()]
    return sections


def named(tools: dict[str, str], tool: str) -> str:
    """What a snapshot calls a tool; one that is declared in several ways has several names."""
    name = json.loads(tool)["function"]["name"]
    same = sum(1 for known in tools.values() if known.partition("~")[0] == name)
    return tools.setdefault(tool, f"{name}~{same + 1}" if same else name)


def one_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@functools.cache
def compared(client: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The sections of a client's file, as they are now and as they were reviewed."""
    now = snapshot([request for request in CREATING if request.client == client])
    path = SNAPSHOTS / f"{client}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        text = "\n".join("\n".join([title, *(f"  {line}" for line in lines), ""]) for title, lines in now.items())
        path.write_text(text, encoding="utf-8")
    reviewed = {}
    for section in path.read_text(encoding="utf-8").rstrip("\n").split("\n\n"):
        title, *lines = section.split("\n")
        reviewed[title] = [line.removeprefix("  ") for line in lines]
    return now, reviewed


@by_name
def test_lowered_as_reviewed(request_: ClientRequest) -> None:
    """Byte for byte what someone has read and found right: settings, messages, and which tools."""
    now, reviewed = compared(request_.client)
    assert now[request_.scenario] == reviewed[request_.scenario]


@pytest.mark.parametrize("client", sorted({request.client for request in CREATING}))
def test_tools_as_reviewed(client: str) -> None:
    """The same for each tool, with its schema; and the file holds nothing else."""
    now, reviewed = compared(client)
    assert now[TOOLS] == reviewed[TOOLS]
    assert list(now) == list(reviewed)
