"""What a model's chat template accepts, found out by asking it.

Chat templates differ in what they refuse, and no field says so. Some raise, as in "roles must alternate"; others
drop a turn without a word, or move it. So :func:`probe_template` renders a small conversation for each rule and looks
at both: whether it renders, and whether what was put in comes out, in order. Which rule forbids what, and what is
done instead (see ``placement``), stands in one table, :data:`RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from responses_plugin.lowering.messages import (
    ChatMessage,
    assistant_call,
    assistant_text,
    parts_of,
    text_part,
    user_text,
    with_parts,
)

#: Renders messages and tools as the engine would, generation prompt included; raises what the template raises.
Render = Callable[[Sequence[Mapping[str, Any]], list[dict[str, Any]] | None], str]


@dataclass(frozen=True)
class TemplateRules:
    """What a chat template accepts. By default everything, which is also assumed of a template that cannot be asked.

    Each field has its row in :data:`RULES`. A rule whose premise does not hold is left at True: it forbids nothing.
    """

    string_content: bool = True
    images: bool = True
    system_message: bool = True
    system_with_images: bool = True
    late_system_message: bool = True
    start_without_user: bool = True
    two_user_turns: bool = True
    empty_answer: bool = True
    declared_tools: bool = True
    tool_exchange: bool = True
    any_call_id: bool = True
    list_in_tool_turn: bool = True
    parallel_calls: bool = True
    user_between_results: bool = True
    user_after_results: bool = True
    text_beside_call: bool = True
    text_before_call: bool = True


@dataclass(frozen=True)
class Rule:
    """One field of :class:`TemplateRules`: what is accepted or not, what is done where it is not, how to find out."""

    name: str
    #: What the template accepts, or not.
    what: str
    #: What lowering does where it does not; empty where it does the same for every template.
    instead: str
    #: All must come out whole, with and without tools.
    conversations: Sequence[list[ChatMessage]]
    #: What must have been found out for the rule to matter.
    given: Mapping[str, bool] = field(default_factory=dict)
    #: Whether the name of the declared tool must come out as well.
    names_tools: bool = False


#: Nine letters and digits: the one form of an id that no template refuses.
_ID, _OTHER_ID = "probe0001", "probe0002"
_TOOL = "probe_tool"
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": _TOOL,
            "description": "Looks at something.",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string", "description": "Where to look."}},
                "required": ["place"],
            },
        },
    }
]


def _call(call_id: str, place: str) -> ChatMessage:
    return assistant_call(call_id, _TOOL, f'{{"place": "{place}"}}')


def _result(call_id: str, content: str | list[dict[str, Any]]) -> ChatMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


# Made-up words, which no template says by itself.
_SYSTEM: ChatMessage = {"role": "system", "content": "quibblewort"}
_ASK, _ASK_MORE, _ASK_LAST = user_text("frobnitz"), user_text("snorkelby"), user_text("wumpledine")
_ASK_WITH_IMAGE: ChatMessage = {
    "role": "user",
    "content": [text_part("frobnitz"), {"type": "image_url", "image_url": {"url": "data:,"}}],
}
_ANSWER = assistant_text("plinkerton")
_CALL, _RESULT = _call(_ID, "gribbleton"), _result(_ID, "tweezlebop")
_CALL_WITH_TEXT: ChatMessage = {**_CALL, "reasoning_content": "Hm.", "content": "mumblecroft"}
_BOTH_CALLS: ChatMessage = {
    **_CALL,
    "tool_calls": [*_CALL["tool_calls"], *_call(_OTHER_ID, "dinglehop")["tool_calls"]],
}
_OTHER_RESULT = _result(_OTHER_ID, "zanzifer")
_LONG_ID = "call_0123456789abcdef"

_TOOLS_WORK = {"tool_exchange": True}

RULES: Sequence[Rule] = (
    Rule("string_content", "content that is a string", "text is sent as a list of parts", [[_ASK]]),
    Rule("images", "images", "", [[_ASK_WITH_IMAGE]]),
    Rule(
        "system_message",
        "a system message",
        "the system text opens the first user turn",
        [[_SYSTEM, _ASK, _ANSWER, _ASK_MORE]],
    ),
    Rule(
        "system_with_images",
        "a system message where there are images",
        "the system text opens the first user turn, whether there are images or not",
        [[_SYSTEM, _ASK_WITH_IMAGE]],
        given={"system_message": True, "images": True},
    ),
    Rule(
        "late_system_message",
        "a system message in the middle",
        "",
        [[_ASK, _ANSWER, _SYSTEM, _ASK_MORE]],
    ),
    Rule(
        "start_without_user",
        "a conversation that does not begin with a user turn",
        "a placeholder user turn is put first",
        [[_SYSTEM], [_ANSWER, _ASK]],
    ),
    Rule("two_user_turns", "two user turns in a row", "they become one", [[_ASK, _ASK_MORE]]),
    Rule(
        "empty_answer",
        "an assistant turn without text",
        "it gets a placeholder",
        [[_ASK, assistant_text(""), _ASK_MORE]],
    ),
    Rule(
        "declared_tools",
        "declarations of tools",
        "tools are declared all the same, but the model does not see them",
        [[_ASK]],
        names_tools=True,
    ),
    Rule(
        "tool_exchange",
        "calls and results",
        "calls are written out in the assistant's text, results are user turns",
        [[_ASK, _CALL, _RESULT]],
    ),
    Rule(
        "any_call_id",
        "call ids of any form",
        "ids are nine letters and digits",
        [[_ASK, _call(_LONG_ID, "gribbleton"), _result(_LONG_ID, "tweezlebop")]],
        given=_TOOLS_WORK,
    ),
    Rule(
        "list_in_tool_turn",
        "a list of parts as a result",
        "",
        [[_ASK, _CALL, _result(_ID, [text_part("tweezlebop")])]],
        given=_TOOLS_WORK,
    ),
    Rule(
        "parallel_calls",
        "several calls in one assistant turn",
        "each call is a turn of its own, with its result after it",
        [[_ASK, _BOTH_CALLS, _RESULT, _OTHER_RESULT]],
        given=_TOOLS_WORK,
    ),
    Rule(
        "user_between_results",
        "a user turn between the results of parallel calls",
        "the results stay together, and their images follow in one user turn, labelled with the call ids",
        [[_ASK, _BOTH_CALLS, _RESULT, _ASK_MORE, _OTHER_RESULT]],
        given={**_TOOLS_WORK, "parallel_calls": True},
    ),
    Rule(
        "user_after_results",
        "a user turn right after a result",
        "a placeholder assistant turn parts them",
        [[_ASK, _CALL, _RESULT, _ASK_MORE, _ANSWER, _ASK_LAST]],
        given=_TOOLS_WORK,
    ),
    Rule(
        "text_beside_call",
        "text and a call in one assistant turn",
        "the text comes first, in an assistant turn of its own, if the template takes that",
        [[_ASK, _CALL_WITH_TEXT, _RESULT]],
        given=_TOOLS_WORK,
    ),
    Rule(
        "text_before_call",
        "an assistant turn right before a call",
        "text stays beside the call, so this template leaves it out",
        [[_ASK, _ANSWER, _CALL, _RESULT, assistant_text("mumblecroft"), _ASK_MORE]],
        given={**_TOOLS_WORK, "text_beside_call": False},
    ),
)


def probe_template(render: Render) -> TemplateRules | None:
    """Ask a template for its rules; None when not even a single user turn comes out of it."""
    # Some templates are for requests with tools only, and a few for those without.
    for rules in (TemplateRules(), TemplateRules(string_content=False)):
        offers = [tools for tools in (None, _TOOLS) if _comes_out(render, _sent([_ASK], rules), tools)]
        if offers:
            break
    else:
        return None
    for rule in RULES:
        if matters(rule, rules):
            # What lowering does not send need not be accepted.
            conversations = [each for each in rule.conversations if rules.system_message or each[0] is not _SYSTEM]
            accepted = all(
                _comes_out(render, _sent(conversation, rules), tools, names_tools=rule.names_tools)
                for conversation in conversations
                for tools in offers
            )
            rules = replace(rules, **{rule.name: accepted and getattr(rules, rule.name)})
    return rules


def matters(rule: Rule, rules: TemplateRules) -> bool:
    """Whether a rule says anything about a template with these rules."""
    return all(getattr(rules, name) is known for name, known in rule.given.items())


def refused(rules: TemplateRules) -> list[Rule]:
    """What a template does not accept, in the order of the table."""
    return [rule for rule in RULES if not getattr(rules, rule.name)]


def describe(rules: TemplateRules) -> str:
    """What is placed otherwise for a template, as one line for the log."""
    chosen = [f"refuses {rule.what} ({rule.instead})" for rule in refused(rules) if rule.instead]
    return "; ".join(chosen) or "takes messages as they are"


def _sent(conversation: list[ChatMessage], rules: TemplateRules) -> list[ChatMessage]:
    return conversation if rules.string_content else [with_parts(message) for message in conversation]


def _comes_out(
    render: Render,
    conversation: list[ChatMessage],
    tools: list[dict[str, Any]] | None,
    *,
    names_tools: bool = False,
) -> bool:
    """Whether a conversation renders with all of its words in order."""
    try:
        text = render(conversation, tools)
    except Exception:  # noqa: BLE001 - templates raise whatever Python raises, and each of it is a refusal
        return False
    if names_tools and tools and _TOOL not in text:
        return False
    position = 0
    for word in _words(conversation):
        position = text.find(word, position)
        if position < 0:
            return False
        position += len(word)
    return True


def _words(conversation: list[ChatMessage]) -> Iterator[str]:
    for message in conversation:
        yield from (part["text"] for part in parts_of(message) if part["type"] == "text")
        for call in message.get("tool_calls", []):
            # The value alone: its place is marked up in many ways, and the tool's name stands in declarations too.
            yield call["function"]["arguments"].split('"')[3]
