"""Lowering as a whole: nothing is lost, everything comes in order, and turns are only ever appended."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from responses_plugin.lowering.conversation import lower_conversation
from responses_plugin.lowering.items import IMAGE_NOT_SHOWN
from responses_plugin.protocol.items import Message
from tests.lowering.conversations import Conversation, agent_conversations, any_items, images_of, marks_of
from tests.reading import BUILTIN, lower, read, read_item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from responses_plugin.lowering.messages import ChatMessage

modest = settings(max_examples=100)
instructions = st.sampled_from([None, "You code."])


def assert_acceptable(messages: Sequence[ChatMessage]) -> None:
    """What chat templates rely on: one system message at most, first, and each call followed by its own output."""
    open_calls: list[str] = []
    answered = False
    for index, message in enumerate(messages):
        content = message["content"]
        assert isinstance(content, str | list), "content is never null"
        pictures_only = isinstance(content, list) and all(part["type"] == "image_url" for part in content)
        if message["role"] == "tool":
            assert open_calls
            assert message["tool_call_id"] == open_calls.pop(0)
            assert isinstance(content, str)
        elif open_calls:
            assert answered, "the first output follows its call at once"
            assert message["role"] == "user"
            assert pictures_only
        else:
            assert message["role"] in ("user", "assistant") or (message["role"], index) == ("system", 0)
        if message["role"] != "user":
            assert not images_of([message])
        answered = message["role"] == "tool" or (answered and bool(open_calls))
        open_calls += [call["id"] for call in message.get("tool_calls", [])]
    assert not open_calls


@modest
@given(any_items())
def test_any_items_lower_and_lose_nothing(conversation: Conversation) -> None:
    """Each text and each image comes out exactly once, in an exchange that templates accept, however odd the order."""
    messages = lower(conversation.items)
    assert sorted(marks_of(messages)) == sorted(conversation.texts)
    assert sorted(images_of(messages)) == sorted(conversation.images)
    assert_acceptable(messages)


@modest
@given(agent_conversations(), instructions)
def test_a_conversation_is_read_in_the_order_it_was_held(conversation: Conversation, instructions: str | None) -> None:
    """Texts and images come in the order in which they were said, thought, called for and returned."""
    messages = lower(conversation.items, instructions=instructions)
    assert marks_of(messages) == conversation.texts
    assert images_of(messages) == conversation.images
    assert_acceptable(messages)


@modest
@given(agent_conversations(parallel_outputs_shuffled=True), instructions)
def test_turns_are_appended(conversation: Conversation, instructions: str | None) -> None:
    """The messages of each request are the beginning of those of the next, so that the host's prefix cache hits."""
    lowered = [lower(conversation.items[:end], instructions=instructions) for end in conversation.boundaries]
    for shorter, longer in pairwise(lowered):
        assert longer[: len(shorter)] == shorter
        assert len(longer) > len(shorter)


@modest
@given(any_items())
def test_lowering_is_pure(conversation: Conversation) -> None:
    """The same items give the same messages, and stay as they are: the store replays them, hooks look at them."""
    sent = copy.deepcopy(conversation.items)
    context, entries = read({"model": "m", "input": conversation.items})
    before = copy.deepcopy([entry.item for entry in entries])
    messages = lower_conversation(BUILTIN, entries, context)
    kept = copy.deepcopy(messages)
    assert lower_conversation(BUILTIN, entries, context) == kept == messages
    assert [entry.item for entry in entries] == before
    assert conversation.items == sent


@modest
@given(any_items())
def test_items_lower_the_same_after_storage(conversation: Conversation) -> None:
    """A stored conversation is replayed from the wire form of its items."""
    stored = [read_item(item).wire() for item in conversation.items]
    assert lower(stored) == lower(conversation.items)


@modest
@given(agent_conversations(parallel_outputs_shuffled=True))
def test_a_text_model_gets_the_same_without_images(conversation: Conversation) -> None:
    """Where only tools returned images, an engine without vision gets every text and a line for each image."""
    items = [item for item in conversation.items if not (isinstance(read_item(item), Message) and "image" in str(item))]
    seen = lower(items, instructions="You code.")
    blind = lower(items, instructions="You code.", supports_images=False)
    assert marks_of(blind) == marks_of(seen)
    assert images_of(blind) == []
    assert str(blind).count(IMAGE_NOT_SHOWN) == len(images_of(seen))
    assert_acceptable(blind)
