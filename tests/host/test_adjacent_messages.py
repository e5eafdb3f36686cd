"""What the host's chat handler makes of adjacent messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm_mlx import server

from responses_plugin.hooks.adjacent_messages import NORMALIZE, keep_apart, responses_host_patches
from responses_plugin.hooks.host import Host
from responses_plugin.patching import PatchSet, SeamStatus
from tests.host.scripted import Script, ScriptedHost

Message = dict[str, Any]

pytestmark = pytest.mark.contract

CHAT = "/v1/chat/completions"


def call(number: int) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def result(number: int, content: str) -> Message:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


EXCHANGE: list[Message] = [
    {"role": "user", "content": "Look twice."},
    {"role": "assistant", "content": "I look.", "tool_calls": [call(1), call(2)]},
    result(1, "blue"),
    result(2, "red"),
    {"role": "assistant", "content": "Once more."},
    {"role": "assistant", "content": "", "tool_calls": [call(3)]},
    result(3, "green"),
]


@pytest.mark.parametrize("mllm", [True, False], ids=["multimodal", "text"])
async def test_results_of_parallel_calls_stay_apart(mllm: bool) -> None:
    """Every call and every result reaches the engine as a message of its own, with its id."""
    with ScriptedHost(Script(["ok"]), mllm=mllm) as host:
        await host.post(CHAT, messages=EXCHANGE)
        messages = host.engine.calls[0].messages
    assert [message["role"] for message in messages] == [message["role"] for message in EXCHANGE]
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == [
        "call_1",
        "call_2",
        "call_3",
    ]
    assert [len(message.get("tool_calls", ())) for message in messages] == [0, 2, 0, 0, 0, 1, 0]


def test_the_seam_is_taken_where_results_are_merged() -> None:
    """The probe agrees with what the host does."""
    [patch] = responses_host_patches(host=Host())
    merges = len(getattr(server, NORMALIZE)(EXCHANGE)) < len(EXCHANGE)
    assert patch.inspect().status is (SeamStatus.TAKEN if merges else SeamStatus.NOT_NEEDED)


plain_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant"])},
    optional={
        "content": st.text(max_size=5) | st.lists(st.just({"type": "text", "text": "hi"}), max_size=2),
        "tool_calls": st.just([]),
    },
)


@settings(deadline=None)
@given(st.lists(plain_messages, max_size=6))
def test_all_else_is_as_on_the_unpatched_host(messages: list[Message]) -> None:
    """Without a tool exchange, roles are mapped and messages merged as before."""
    original = getattr(server, NORMALIZE)
    assert keep_apart(original)(messages) == original(messages)


@settings(deadline=None)
@given(st.lists(plain_messages, max_size=3), st.lists(plain_messages, max_size=3))
def test_the_messages_around_an_exchange_are_merged_as_ever(before: list[Message], after: list[Message]) -> None:
    """Calls and results are the only ones that stand alone."""
    original = getattr(server, NORMALIZE)
    exchange = EXCHANGE[1:4]
    assert keep_apart(original)([*before, *exchange, *after]) == [*original(before), *exchange, *original(after)]


def test_reverting_restores_the_host_exactly() -> None:
    """The very function that was there is there again."""
    before = getattr(server, NORMALIZE)
    patches = PatchSet("under test", responses_host_patches(host=Host()))
    patches.apply()
    patches.revert()
    assert getattr(server, NORMALIZE) is before
