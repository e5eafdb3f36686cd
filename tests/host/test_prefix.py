"""The prompt of a turn is the beginning of the next turn's, whoever keeps the history: what prefix caches live on."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from tests import tiny
from tests.benchmark import trace
from tests.host.scripted import SCRIPTED_MODEL, EngineCall, Script, ScriptedHost, tiny_tokenizer
from tests.images import data_url
from tests.lowering.conversations import Conversation, agent_conversations
from tests.reading import lower_body

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]

pytestmark = pytest.mark.contract

WITH_AND_WITHOUT_IMAGES = pytest.mark.parametrize("images", [False, True], ids=["text", "images"])


def rendered(body: Json, *, supports_images: bool = True, opens_answer: bool = False) -> str:
    """The text of a prompt, as the tiny model's template writes it."""
    chat, messages = lower_body(body, supports_images=supports_images)
    return written(messages, chat.get("tools"), opens_answer=opens_answer)


def written(messages: Sequence[Any], tools: Any, *, opens_answer: bool = False) -> str:
    text = tiny_tokenizer().apply_chat_template(
        messages, tools=tools, tokenize=False, add_generation_prompt=opens_answer
    )
    assert isinstance(text, str)
    return text


def assert_appended(prompts: Sequence[Any]) -> None:
    for shorter, longer in pairwise(prompts):
        assert longer[: len(shorter)] == shorter
        assert len(longer) > len(shorter)


# --- Full replay -----------------------------------------------------------------------------------------------------


@WITH_AND_WITHOUT_IMAGES
@pytest.mark.parametrize("supports_images", [False, True], ids=["text-only", "vision"])
def test_an_agents_session_only_grows(images: bool, supports_images: bool) -> None:
    """All of the prompt, the beginning of the answer too."""
    bodies = [trace.request(items) for items in trace.replays(trace.session(images=images))]
    assert_appended([rendered(body, supports_images=supports_images, opens_answer=True) for body in bodies])


@settings(max_examples=50, deadline=None)
@given(agent_conversations(parallel_outputs_shuffled=True))
def test_any_session_only_grows(conversation: Conversation) -> None:
    """Parallel calls, images, system messages in the middle and items that nobody knows change nothing before them."""
    inputs = [conversation.items[:end] for end in conversation.boundaries]
    fixed = {"model": "m", "instructions": "You code.", "tools": tiny.RESPONSES_TOOLS}
    assert_appended([rendered({**fixed, "input": items}) for items in inputs])


# --- Kept by the plugin ----------------------------------------------------------------------------------------------


@WITH_AND_WITHOUT_IMAGES
@pytest.mark.parametrize("way", ["previous_response_id", "conversation"])
async def test_a_stored_session_only_grows(way: str, images: bool) -> None:
    """The engine is given the messages that a full replay gives it, turn by turn."""
    turns = trace.session(images=images)
    scripts = [Script([said_by_model(turn.answer)]) for turn in turns]
    with ScriptedHost(*scripts) as host:
        replayed = await hold(host, turns, "input")
    with ScriptedHost(*scripts) as host:
        stored = await hold(host, turns, way)
    assert_appended([call.messages for call in stored])
    assert [without_ids(call.messages) for call in stored] == [without_ids(call.messages) for call in replayed]
    assert all(call.tools == stored[0].tools for call in [*stored, *replayed])


@settings(max_examples=15, deadline=None)
@given(agent_conversations(parallel_outputs_shuffled=True))
async def test_any_stored_session_only_grows(conversation: Conversation) -> None:
    """Whatever a client adds, and whoever keeps it: the engine gets the same messages, each time with more behind them."""
    # The host looks up where an image is to come from; these bring theirs along.
    items = json.loads(re.sub(r"https://example\.com/\d+\.png", data_url("red"), json.dumps(conversation.items)))
    added = [items[start:end] for start, end in pairwise([0, *conversation.boundaries])]
    calls = {way: await hold_any(added, way) for way in ("input", "previous_response_id", "conversation")}
    for way, made in calls.items():
        assert len(made) == len(added)
        assert_appended([call.messages for call in made])
        assert_appended([written(call.messages, call.tools) for call in made])
        assert [call.messages for call in made] == [call.messages for call in calls["input"]], way


async def hold_any(added: Sequence[list[Json]], way: str) -> list[EngineCall]:
    """Let a client add this, turn by turn, to which the model always says the same."""
    history: list[Json] = []
    kept: Json = {way: "conv_prefix"} if way == "conversation" else {}
    with ScriptedHost(Script(["Hello."])) as host:
        for new in added:
            body: Json = {"instructions": "You code.", "tools": tiny.RESPONSES_TOOLS, **kept}
            answer = (await host.post(input=[*history, *new], **body)).json()
            assert answer["status"] == "completed", answer
            if way == "input":
                history += [*new, *answer["output"]]
            elif way == "previous_response_id":
                kept = {way: answer["id"]}
        return host.engine.calls


async def hold(host: ScriptedHost, turns: Sequence[trace.Turn], way: str) -> list[EngineCall]:
    """Hold the session, and return what the engine was called with."""
    history: list[Json] = []
    fields: Json = {"model": SCRIPTED_MODEL} | ({way: "conv_prefix"} if way == "conversation" else {})
    for turn in turns:
        new = answering(history, turn.new)
        body = trace.request([*history, *new] if way == "input" else new) | fields
        answer = (await host.post(**body)).json()
        assert answer["status"] == "completed", answer
        assert trace.said(answer["output"]) == trace.said(turn.answer)
        history += [*new, *answer["output"]]
        if way == "previous_response_id":
            fields[way] = answer["id"]
    return host.engine.calls


def answering(history: Sequence[Json], new: Sequence[Json]) -> list[Json]:
    """The items with the id of the call that was really made."""
    made = [item["call_id"] for item in history if item["type"].endswith("_call")]
    return [{**item, "call_id": made[-1]} if item["type"].endswith("_call_output") else item for item in new]


def said_by_model(answer: Sequence[Json]) -> str:
    """The answer in the model's own words."""
    (item,) = answer
    if item["type"] == "message":
        text: str = item["content"][0]["text"]
        return text
    arguments = item.get("arguments") or json.dumps({"input": item["input"]})
    return f'<tool_call>\n{{"name": "{item["name"]}", "arguments": {arguments}}}\n</tool_call>'


def without_ids(messages: Sequence[Json]) -> str:
    """The messages with their calls numbered: each session has ids of its own."""
    text = json.dumps(messages)
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or []]
    for number, id in enumerate(ids):
        text = text.replace(id, f"call {number}")
    return text
