"""What a template refuses is found out by asking it, and then kept from it."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jinja2.exceptions import TemplateError

from responses_plugin.lowering.messages import user_text
from responses_plugin.lowering.placement import IMAGES_OF, OPENING, WAITING
from responses_plugin.lowering.template import RULES, TemplateRules, describe, matters, probe_template, refused
from tests.images import data_url
from tests.lowering.conversations import Conversation, agent_conversations, any_items, images_of, marks_of
from tests.reading import assistant, call, chat_call, chat_image, developer, image, lower, output, reasoning, text, user
from tests.templates import NAMES, renderer, rules_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from responses_plugin.lowering.messages import ChatMessage

RED, BLUE = data_url("red"), data_url("blue")
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}
]
modest = settings(deadline=None, max_examples=40)


def refusing(*names: str) -> TemplateRules:
    return TemplateRules(**dict.fromkeys(names, False))


RENDERERS = {name: renderer(name) for name in NAMES}
RULE_SETS = {name: probe_template(render) or TemplateRules() for name, render in RENDERERS.items()}


# --- Asking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_rules_of_a_template_are_found_out(name: str) -> None:
    """Exactly what its first line says, whether it raises, leaves something out or moves it."""
    assert {rule.name for rule in refused(RULE_SETS[name])} == rules_of(name)


def test_every_rule_is_asked_for_and_has_a_template() -> None:
    """A field without a row would never be found out, and one without a template would not be tested."""
    assert [field.name for field in dataclasses.fields(TemplateRules)] == [rule.name for rule in RULES]
    assert set().union(*map(rules_of, NAMES)) == {rule.name for rule in RULES}


def test_a_rule_is_asked_for_when_it_matters() -> None:
    """Where calls are not shown at all, nothing more is said of them."""
    rules = refusing("tool_exchange")
    assert [rule.name for rule in RULES if not matters(rule, rules)] == [
        "any_call_id",
        "list_in_tool_turn",
        "parallel_calls",
        "user_between_results",
        "user_after_results",
        "text_beside_call",
        "text_before_call",
    ]


def test_a_template_for_requests_with_tools_only_is_asked_with_tools() -> None:
    """Some models have one of their own for these; without tools it cannot render at all."""
    everything = renderer("everything")

    def render(messages: Any, tools: Any) -> str:
        return "".join(tool["function"]["name"] for tool in tools) + everything(messages, tools)

    assert probe_template(render) == TemplateRules()


@pytest.mark.parametrize("rendered", ["", "<assistant>"])
def test_a_template_that_shows_nothing_cannot_be_asked(rendered: str) -> None:
    """There is nothing to tell from it."""
    assert probe_template(lambda messages, tools: rendered) is None


def test_a_template_that_always_fails_cannot_be_asked() -> None:
    """Whatever it raises is not passed on."""

    def render(messages: Any, tools: Any) -> str:
        raise ZeroDivisionError

    assert probe_template(render) is None


def test_what_is_placed_otherwise_can_be_read() -> None:
    """In one line; what makes no difference is left out."""
    assert describe(refusing("late_system_message", "images")) == "takes messages as they are"
    assert describe(refusing("two_user_turns", "late_system_message", "empty_answer")) == (
        "refuses two user turns in a row (they become one); refuses an assistant turn without text (it gets a placeholder)"
    )


# --- Whole conversations --------------------------------------------------------------------------------------------


def without_what_templates_leave_out(messages: Sequence[ChatMessage], rules: TemplateRules) -> list[ChatMessage]:
    """Without reasoning, which none of them has to show, and without the text that one of them cannot show."""
    kept: list[ChatMessage] = [{**message, "reasoning_content": ""} for message in messages]
    if rules.text_before_call:
        return kept
    return [{**message, "content": ""} if "tool_calls" in message else message for message in kept]


@modest
@given(agent_conversations())
def test_no_conversation_is_refused(conversation: Conversation) -> None:
    """What is lowered for a template renders with it, every text in its place, tools declared or not."""
    for name, rules in RULE_SETS.items():
        messages = lower(conversation.items, template=rules, instructions="You code. #i#")
        if not rules.images:
            messages = [message for message in messages if isinstance(message["content"], str)]
        expected = marks_of(without_what_templates_leave_out(messages, rules))
        for tools in (None, TOOLS):
            rendered = RENDERERS[name](messages, tools)
            marks = marks_of([{"role": "user", "content": rendered}])
            assert [mark for mark in marks if mark in expected] == expected, name
            assert "#i#" in rendered, name


@modest
@given(agent_conversations(parallel_outputs_shuffled=True), st.sampled_from([None, "You code."]))
def test_turns_are_appended_whatever_the_rules(conversation: Conversation, instructions: str | None) -> None:
    """The messages of each request are the beginning of those of the next, so that the host's prefix cache hits."""
    requests = [conversation.items[:end] for end in conversation.boundaries]
    for rules in set(RULE_SETS.values()):
        lowered = [lower(items, template=rules, instructions=instructions) for items in requests]
        for shorter, longer in pairwise(lowered):
            assert longer[: len(shorter)] == shorter, describe(rules)


@modest
@given(any_items())
def test_nothing_is_lost_whatever_the_rules(conversation: Conversation) -> None:
    """Each text and each image comes out once, however odd the order of the items."""
    for rules in set(RULE_SETS.values()):
        messages = lower(conversation.items, template=rules)
        assert sorted(marks_of(messages)) == sorted(conversation.texts), describe(rules)
        assert sorted(images_of(messages)) == sorted(conversation.images), describe(rules)


@modest
@given(any_items(), st.booleans())
def test_no_content_is_null_whatever_the_rules(conversation: Conversation, supports_images: bool) -> None:
    """Not even that of a call without text: many templates look into it, and some write the word ``None``.

    All show a call whose content is empty, so this is not asked for.
    """
    items = [item for item in conversation.items if supports_images or "image" not in str(item)]
    assume(items)
    for rules in set(RULE_SETS.values()):
        for message in lower(items, template=rules, supports_images=supports_images):
            assert isinstance(message["content"], str | list), describe(rules)


def test_null_content_would_be_refused() -> None:
    """By the template that is there for it, which all lowered conversations are rendered with above."""
    with pytest.raises(TemplateError, match="Content is not null"):
        RENDERERS["content_not_null"]([user_text("hi"), {**calling("a"), "content": None}, tool("a")], None)


# --- Prompts that grow ----------------------------------------------------------------------------------------------

#: Templates that change the beginning of a prompt as it grows, whatever messages they get: not ours to mend. What stands
#: beside them is what a request must be without to be spared that.
MOVING = {
    "thoughts_dropped": "thoughts",  # Those of a turn go once the user speaks again.
    "tools_last": "tools",  # They move on with each user turn.
}


def prompts_of(
    name: str, requests: Sequence[Sequence[dict[str, Any]]], *, tools: bool, instructions: str | None = None
) -> list[str]:
    """What a template makes of each request, without the beginning of the answer."""
    rules, render = RULE_SETS[name], renderer(name, opens_answer=False)
    prompts = []
    for items in requests:
        messages = lower(items, template=rules, instructions=instructions)
        if not rules.images:
            messages = [message for message in messages if isinstance(message["content"], str)]
        # A conversation of nothing but images is none for a template that takes no images.
        if messages:
            prompts.append(render(messages, TOOLS if tools else None))
    return prompts


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=20)
@given(agent_conversations(parallel_outputs_shuffled=True), st.booleans(), st.sampled_from([None, "You code."]))
def test_prompts_only_grow(name: str, conversation: Conversation, tools: bool, instructions: str | None) -> None:
    """The text of each prompt is the beginning of the next one's, up to where the answer goes."""
    lacks = MOVING.get(name)
    requests = [
        [item for item in conversation.items[:end] if lacks != "thoughts" or item.get("type") != "reasoning"]
        for end in conversation.boundaries
    ]
    prompts = prompts_of(name, requests, tools=tools and lacks != "tools", instructions=instructions)
    for shorter, longer in pairwise(prompts):
        assert longer.startswith(shorter)
        assert len(longer) > len(shorter) or not RULE_SETS[name].images


@pytest.mark.parametrize("name", NAMES)
def test_what_a_template_moves_is_known(name: str) -> None:
    """Those that are excepted above do what is said of them, and no other does."""
    thought = [user("hi"), reasoning("Two."), call("a"), output("a")]
    prompts = prompts_of(name, [thought, [*thought, assistant("ok"), user("go")]], tools=True)
    assert prompts[1].startswith(prompts[0]) is (name not in MOVING)


# --- Placement, rule by rule ----------------------------------------------------------------------------------------


def tool(call_id: str, content: str = "seen") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def calling(*ids: str, content: str = "", **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": [chat_call(id) for id in ids], **fields}


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


ATTACHED = "[Image output attached in the next message]"
TWO_SHOTS = [user("hi"), call("a"), call("b"), output("a", [text("A"), image(RED)]), output("b", [image(BLUE)])]


def test_results_stay_together_and_their_images_follow_labelled() -> None:
    """Where a user turn may not come between the results of parallel calls; a lone result is followed as always."""
    rules = refusing("user_between_results")
    assert lower([*TWO_SHOTS, assistant("ok")], template=rules)[1:] == [
        calling("a", "b"),
        tool("a", f"A\n{ATTACHED}"),
        tool("b", ATTACHED),
        said(
            "user",
            [
                {"type": "text", "text": IMAGES_OF.format("a")},
                chat_image(RED),
                {"type": "text", "text": IMAGES_OF.format("b")},
                chat_image(BLUE),
            ],
        ),
        said("assistant", "ok"),
    ]
    alone = [call("a"), output("a", [image(RED)])]
    assert lower(alone, template=rules) == lower(alone)
    plain = [call("a"), call("b"), output("a"), output("b")]
    assert lower(plain, template=rules) == lower(plain)


def test_each_call_is_a_turn_of_its_own() -> None:
    """Where there can be only one in a turn; what was thought and said stays with the first."""
    items = [
        user("hi"),
        reasoning("Two."),
        assistant("Looking."),
        call("a"),
        call("b"),
        output("b"),
        output("a", [image(RED)]),
    ]
    assert lower(items, template=refusing("parallel_calls"))[1:] == [
        calling("a", content="Looking.", reasoning_content="Two."),
        tool("a", ATTACHED),
        said("user", [chat_image(RED)]),
        calling("b"),
        tool("b"),
    ]


def test_an_assistant_turn_parts_a_result_from_a_user_turn() -> None:
    """Where the assistant has to speak after results: before their images, and before someone who interrupts."""
    rules = refusing("user_after_results", "user_between_results")
    assert [message["role"] for message in lower([*TWO_SHOTS, assistant("ok")], template=rules)] == [
        *("user", "assistant", "tool", "tool", "assistant", "user", "assistant")
    ]
    interrupted = lower([user("hi"), call("a"), output("a"), user("Stop.")], template=rules)
    assert interrupted[-2:] == [said("assistant", WAITING), said("user", "Stop.")]


def test_two_user_turns_become_one() -> None:
    """Where they may not follow each other: texts with an empty line between, images where they stand."""
    items = [user("A"), developer("Now plan."), user([text("B"), image(RED)]), user("C")]
    assert lower([user("hi"), *items], template=refusing("two_user_turns")) == [
        said(
            "user",
            [
                {"type": "text", "text": "hi\n\nA\n\n<developer_message>\nNow plan.\n</developer_message>\n\nB"},
                chat_image(RED),
                {"type": "text", "text": "C"},
            ],
        )
    ]
    assert lower([user("A"), user(""), user("B")], template=refusing("two_user_turns")) == [said("user", "A\n\nB")]


@pytest.mark.parametrize("first", [assistant("ok"), call("a")])
def test_a_user_turn_is_put_first(first: dict[str, Any]) -> None:
    """Where a conversation has to begin with one, right after the system message, and stays there."""
    rules = refusing("start_without_user")
    messages = lower([first], template=rules, instructions="You code.")
    assert messages[:2] == [said("system", "You code."), said("user", OPENING)]
    assert lower([first, user("go")], template=rules, instructions="You code.")[: len(messages)] == messages
    assert lower([user("go"), first], template=rules) == lower([user("go"), first])


def test_instructions_alone_get_a_user_turn() -> None:
    """Where there must be one at all."""
    messages = lower([], template=refusing("start_without_user"), instructions="Say hi.")
    assert messages == [said("system", "Say hi."), said("user", OPENING)]


@pytest.mark.parametrize("rule", ["system_message", "system_with_images"])
def test_the_system_text_opens_the_first_user_turn(rule: str) -> None:
    """Where there is no system role, or none beside images: later turns may bring some. It may be the whole turn."""
    rules = refusing(rule, "start_without_user")
    assert lower([developer("Be brief."), user("hi"), assistant("ok")], template=rules, instructions="You code.") == [
        said("user", "You code.\n\nBe brief.\n\nhi"),
        said("assistant", "ok"),
    ]
    assert lower([assistant("ok")], template=rules, instructions="You code.")[0] == said("user", "You code.")
    assert lower([], template=rules, instructions="You code.") == [said("user", "You code.")]


def test_calls_and_results_are_written_out() -> None:
    """Where there is no form for them, in the words that the host has for it; images follow as always."""
    items = [user("hi"), assistant("Looking."), call("a", arguments='{"at": "sky"}'), call("b"), *TWO_SHOTS[3:]]
    assert lower(items, template=refusing("tool_exchange"))[1:] == [
        said("assistant", 'Looking.\n[Calling tool: look({"at": "sky"})]\n[Calling tool: look({})]'),
        said("user", f"[Tool Result (a)]: A\n{ATTACHED}"),
        said("user", [chat_image(RED)]),
        said("user", f"[Tool Result (b)]: {ATTACHED}"),
        said("user", [chat_image(BLUE)]),
    ]


def test_ids_become_nine_letters_and_digits() -> None:
    """Where they have to be: the same for a call and its result, each its own; those that are so already stay."""
    long, same_start, good = "call_0123456789", "call_0123456780", "abcdef123"
    items = [call(long), call(same_start), call(good), output(good), output(same_start, [image(RED)]), output(long)]
    rules = refusing("any_call_id", "user_between_results")
    calls, first, second, third, images = lower(items, template=rules)
    ids = [each["id"] for each in calls["tool_calls"]]
    assert [message["tool_call_id"] for message in (first, second, third)] == ids
    assert ids[2] == good
    assert len(set(ids)) == 3
    assert all(len(id) == 9 and id.isalnum() and id.isascii() for id in ids)
    assert images["content"][0] == {"type": "text", "text": IMAGES_OF.format(ids[1])}


def test_text_beside_calls_comes_before_them() -> None:
    """Where a turn with calls has no text, with what was thought; where that does not help either it stays."""
    items = [user("hi"), reasoning("Hm."), assistant("Looking."), call("a"), output("a")]
    assert lower(items, template=refusing("text_beside_call"))[1:] == [
        {**said("assistant", "Looking."), "reasoning_content": "Hm."},
        calling("a"),
        tool("a"),
    ]
    assert lower(items, template=refusing("text_beside_call", "text_before_call")) == lower(items)


def test_an_assistant_turn_without_text_gets_some() -> None:
    """Where it must have some: when a model was cut off while it thought, for one. A call needs none."""
    rules = refusing("empty_answer")
    assert lower([user("hi"), reasoning("Hm."), user("go")], template=rules)[1] == {
        **said("assistant", WAITING),
        "reasoning_content": "Hm.",
    }
    assert lower([call("a"), output("a")], template=rules) == lower([call("a"), output("a")])


def test_text_is_sent_as_parts() -> None:
    """Where strings are not shown, of every message."""
    messages = lower(
        [user("hi"), call("a"), output("a")], template=refusing("string_content"), instructions="You code."
    )
    assert [message["content"] for message in messages] == [
        [{"type": "text", "text": "You code."}],
        [{"type": "text", "text": "hi"}],
        [],
        [{"type": "text", "text": "seen"}],
    ]
