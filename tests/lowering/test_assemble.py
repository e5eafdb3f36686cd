"""One conversation of many items: one system message, whole assistant turns, every call with its output after it."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from responses_plugin.hookspecs import hookimpl
from responses_plugin.lowering.assemble import NO_OUTPUT
from responses_plugin.lowering.items import IMAGE_FOLLOWS
from responses_plugin.plugins import load_plugins
from tests.images import data_url
from tests.reading import (
    assistant,
    call,
    chat_call,
    chat_image,
    developer,
    image,
    lower,
    output,
    reasoning,
    text,
    user,
)

RED = data_url("red")
WAITING = "which no call in this conversation is waiting for"


def tool(call_id: str, content: str = "seen") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def calling(*ids: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [chat_call(id) for id in ids], **fields}


# --- System messages ------------------------------------------------------------------------------------------------


def test_instructions_and_opening_messages_are_one_system_message() -> None:
    """Templates take one system message, first; all texts are in it, in order."""
    opening = [{"role": "system", "content": "You code."}, developer("Be brief."), {"role": "developer", "content": ""}]
    assert lower([*opening, user("hi")], instructions="You are Ada.") == [
        {"role": "system", "content": "You are Ada.\n\nYou code.\n\nBe brief."},
        {"role": "user", "content": "hi"},
    ]


@pytest.mark.parametrize(("fields", "items"), [({}, [user("hi")]), ({"instructions": ""}, [developer(""), user("hi")])])
def test_without_instructions_there_is_no_system_message(fields: Any, items: list[Any]) -> None:
    """An empty one would only take the place of the template's own default."""
    assert lower(items, **fields) == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_later_system_messages_stay_in_place(role: str) -> None:
    """As user turns that say what they are: the beginning of the prompt must not change from turn to turn."""
    late = {"type": "message", "role": role, "content": [text("Now plan."), text("Slowly.")]}
    assert lower([developer("You code."), user("hi"), late, user("go")]) == [
        {"role": "system", "content": "You code."},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": f"<{role}_message>\nNow plan.\nSlowly.\n</{role}_message>"},
        {"role": "user", "content": "go"},
    ]


def test_images_of_opening_messages_follow_the_system_message() -> None:
    """They do not part the opening messages from each other."""
    pictured = {"role": "system", "content": [text("Our logo:"), image(RED)]}
    assert lower([pictured, developer("Be brief."), user("hi")]) == [
        {"role": "system", "content": "Our logo:\n\nBe brief."},
        {"role": "user", "content": [chat_image(RED)]},
        {"role": "user", "content": "hi"},
    ]


def test_items_that_are_dropped_do_not_end_the_opening() -> None:
    """Whatever lowers to nothing is not there for the messages around it either."""
    nothing = {"type": "reasoning", "summary": [], "encrypted_content": "foreign"}
    assert lower([developer("One."), nothing, developer("Two."), user("hi")])[0]["content"] == "One.\n\nTwo."


# --- Assistant turns ------------------------------------------------------------------------------------------------


def test_reasoning_text_and_calls_of_one_turn_are_one_message() -> None:
    """That is what the model generated, and what its template renders as one turn."""
    items = [user("hi"), reasoning("Two files."), assistant("Looking."), call("a"), call("b"), output("a"), output("b")]
    assert lower(items)[1:] == [
        {**calling("a", "b"), "content": "Looking.", "reasoning_content": "Two files."},
        tool("a"),
        tool("b"),
    ]


def test_calls_after_an_output_are_a_new_message() -> None:
    """A model that saw a result before it called again did not call in parallel."""
    items = [user("hi"), reasoning("One."), call("a"), output("a"), reasoning("Two."), call("b"), output("b")]
    assert lower(items)[1:] == [
        calling("a", reasoning_content="One."),
        tool("a"),
        calling("b", reasoning_content="Two."),
        tool("b"),
    ]


def test_several_texts_and_thoughts_of_one_turn_are_joined() -> None:
    """Each on its own line, in order."""
    items = [user("hi"), reasoning("One."), assistant("A"), reasoning("Two."), assistant("B")]
    assert lower(items)[1:] == [{"role": "assistant", "content": "A\nB", "reasoning_content": "One.\nTwo."}]


def test_user_turns_are_not_merged() -> None:
    """Clients send context and question as separate messages; merging them would change what is cached."""
    assert [m["content"] for m in lower([user("context"), user("question"), user("")])] == ["context", "question", ""]


# --- Calls and outputs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_outputs_follow_in_the_order_of_their_calls(order: tuple[str, ...]) -> None:
    """Parallel tools end when they end; the model sees results in the order it asked for them."""
    items = [user("hi"), *map(call, "abc"), *(output(id, f"result {id}") for id in order), assistant("ok")]
    assert lower(items)[1:] == [
        calling("a", "b", "c"),
        *(tool(id, f"result {id}") for id in "abc"),
        {"role": "assistant", "content": "ok"},
    ]


def test_each_output_brings_its_images_along() -> None:
    """They stand between the results of parallel calls, so that each picture follows the result it belongs to."""
    blue = data_url("blue")
    items = [call("a"), call("b"), output("b", [image(blue)]), output("a", [text("A"), image(RED)])]
    assert lower(items) == [
        calling("a", "b"),
        tool("a", f"A\n{IMAGE_FOLLOWS}"),
        {"role": "user", "content": [chat_image(RED)]},
        tool("b", IMAGE_FOLLOWS),
        {"role": "user", "content": [chat_image(blue)]},
    ]


@pytest.mark.parametrize("between", [developer("Hurry."), user("Hurry."), {"type": "web_search_call", "id": "ws_1"}])
def test_a_message_between_call_and_output_does_not_part_them(between: dict[str, Any]) -> None:
    """Templates want the result right after the call; what was said meanwhile comes after it."""
    call_message, result, said = lower([call("a"), between, output("a")])
    assert [call_message, result] == [calling("a"), tool("a")]
    assert said["role"] == "user"


@pytest.mark.parametrize("after", [[], [user("Stop. Do something else.")], [developer("New mode."), user("go")]])
def test_a_call_without_output_is_given_one(after: list[dict[str, Any]]) -> None:
    """Agents that were interrupted resume with gaps, in the middle of the history and at its end."""
    messages = lower([user("run"), call("a"), call("b"), output("b"), *after])
    assert messages[1:4] == [calling("a", "b"), tool("a", NO_OUTPUT), tool("b")]
    assert len(messages) == 4 + len(after)


@pytest.mark.parametrize("opening", [[], [developer("Summary.")], [user("hi")], [user("hi"), call("a"), output("a")]])
def test_an_output_without_a_call_becomes_a_user_note(opening: list[dict[str, Any]]) -> None:
    """After a compaction its call may be gone. A bare tool turn would break templates, dropping it would lose it."""
    messages = lower([*opening, output("gone", [text("a.txt"), image(RED)]), user("continue")])
    assert messages[-3:] == [
        {"role": "user", "content": f"[output of call gone, {WAITING}]\na.txt\n{IMAGE_FOLLOWS}"},
        {"role": "user", "content": [chat_image(RED)]},
        {"role": "user", "content": "continue"},
    ]
    assert not [message for message in messages if message.get("tool_call_id") == "gone"]


def test_an_output_before_its_call_does_not_answer_it() -> None:
    """Nothing can answer a call that was not made yet; both are kept."""
    assert lower([output("a", "early"), call("a")]) == [
        {"role": "user", "content": f"[output of call a, {WAITING}]\nearly"},
        calling("a"),
        tool("a", NO_OUTPUT),
    ]


def test_calls_with_one_id_are_answered_in_order() -> None:
    """Some models number their calls anew each turn. Each output answers the first call that has none yet."""
    items = [call("a"), output("a", "1"), user("again"), call("a"), call("a"), output("a", "2"), output("a", "3")]
    assert lower(items) == [
        calling("a"),
        tool("a", "1"),
        {"role": "user", "content": "again"},
        calling("a", "a"),
        tool("a", "2"),
        tool("a", "3"),
    ]


def test_a_second_output_of_one_call_becomes_a_user_note() -> None:
    """A call is answered once; what came later is kept and not taken for the answer to something else."""
    assert lower([call("a"), output("a", "1"), output("a", "2"), user("?")])[1:] == [
        tool("a", "1"),
        {"role": "user", "content": f"[output of call a, {WAITING}]\n2"},
        {"role": "user", "content": "?"},
    ]


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
@pytest.mark.parametrize("value", [{}, {"output": None}, {"output": ""}, {"output": []}])
def test_an_empty_output_is_an_output(kind: str, value: dict[str, Any]) -> None:
    """A tool with nothing to say has answered: missing, null and empty are all the empty string."""
    items = [{"type": kind, "call_id": "a", "name": "touch"}, {"type": f"{kind}_output", "call_id": "a", **value}]
    assert lower(items)[1:] == [tool("a", "")]


def test_a_custom_output_answers_only_by_its_id() -> None:
    """Clients that switch a tool's kind in mid-session answer a call of the one kind with an output of the other."""
    assert lower([call("a"), {"type": "custom_tool_call_output", "call_id": "a", "output": "done"}])[1:] == [
        tool("a", "done")
    ]


# --- Items of plugins -----------------------------------------------------------------------------------------------


def test_an_item_may_bring_a_whole_exchange() -> None:
    """A plugin's item can lower to a call and its output at once; they are paired like those of two items."""

    @hookimpl
    def responses_lower_input_item(item: Any) -> list[Any] | None:
        if item.type != "acme_search_call":
            return None
        return [
            {"role": "assistant", "content": "", "tool_calls": [chat_call(item.id)]},
            {"role": "tool", "tool_call_id": item.id, "content": "found"},
            {"role": "user", "content": [chat_image(RED)]},
        ]

    plugin = SimpleNamespace(responses_lower_input_item=responses_lower_input_item)
    plugins = load_plugins([("acme", plugin)], discover=False)
    items = [user("hi"), reasoning("Search."), {"type": "acme_search_call", "id": "s"}, call("a"), output("a")]
    assert lower(items, plugins)[1:] == [
        calling("s", reasoning_content="Search."),
        tool("s", "found"),
        {"role": "user", "content": [chat_image(RED)]},
        calling("a"),
        tool("a"),
    ]
