"""Messages where the model's chat template takes them.

``assemble`` puts a conversation together for a template that accepts everything: the images of a result in a user turn
right after it, parallel calls in one assistant turn. Here is what is done for those that do not, by the
:class:`~responses_plugin.lowering.template.TemplateRules` they were found to have. All of it looks only backwards, or
at the results of one assistant turn, so that whatever the rules are, a conversation only grows at its end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from responses_plugin.lowering.messages import (
    ChatMessage,
    assistant_text,
    compact,
    parts_of,
    text_part,
    user_text,
    with_parts,
)
from responses_plugin.lowering.template import TemplateRules

#: The user turn that a conversation begins with where it has to and does not.
OPENING = "[The conversation begins]"
#: The assistant turn between a result and a user turn, and the text of one that has none, where there must be one.
WAITING = "[Waiting for the next message]"
#: Says whose images follow, where they do not follow the result itself.
IMAGES_OF = "[Image output of call {}]"

_ID_LENGTH = 9


def fit_ids(message: ChatMessage, rules: TemplateRules) -> ChatMessage:
    """The message with ids of calls that the template takes: nine letters and digits each, where it is particular."""
    if rules.any_call_id:
        return message
    fitted: ChatMessage = {**message}
    if "tool_call_id" in message:
        fitted["tool_call_id"] = _short(message["tool_call_id"])
    if "tool_calls" in message:
        fitted["tool_calls"] = [{**call, "id": _short(call["id"])} for call in message["tool_calls"]]
    return fitted


def lay_out(message: ChatMessage, answers: Sequence[list[ChatMessage]], rules: TemplateRules) -> list[ChatMessage]:
    """An assistant turn with calls and what answers each of them: a tool message, and user turns with its images."""
    if not rules.tool_exchange:
        return _in_words(message, answers)
    said: list[ChatMessage] = []
    calls = message["tool_calls"]
    if message["content"] and not rules.text_beside_call and rules.text_before_call:
        said, message = _apart(message)
    if not rules.parallel_calls:
        turns = [message, *(assistant_text("") for _ in calls[1:])]
        for turn, call, answer in zip(turns, calls, answers, strict=True):
            said += [{**turn, "tool_calls": [call]}, *answer]
        return said
    if not rules.user_between_results and len(calls) > 1:
        return [*said, message, *(result for result, *_ in answers), *_labelled(answers)]
    return [*said, message, *(each for answer in answers for each in answer)]


def fit(messages: Iterable[ChatMessage], rules: TemplateRules) -> list[ChatMessage]:
    """The whole conversation, with the turns that the template wants to see, and without those it does not."""
    fitted: list[ChatMessage] = []
    for message in _opened(list(messages), rules):
        role, before = message["role"], fitted[-1]["role"] if fitted else None
        if role == "user" and before == "tool" and not rules.user_after_results:
            fitted += [assistant_text(WAITING), message]
        elif role == "user" and before == "user" and not rules.two_user_turns:
            fitted[-1] = _joined(fitted[-1], message)
        elif role == "assistant" and not (message["content"] or "tool_calls" in message or rules.empty_answer):
            fitted.append({**message, "content": WAITING})
        else:
            fitted.append(message)
    return fitted if rules.string_content else [with_parts(message) for message in fitted]


def _opened(messages: list[ChatMessage], rules: TemplateRules) -> list[ChatMessage]:
    """The conversation with the beginning that the template wants: its system message, then a user turn."""
    system, rest = messages[:1], messages[1:]
    if not system or system[0]["role"] != "system":
        system, rest = [], messages
    starts_with_user = bool(rest) and rest[0]["role"] == "user"
    if system and not (rules.system_message and rules.system_with_images):
        opening: ChatMessage = {**system[0], "role": "user"}
        return [_joined(opening, rest[0]), *rest[1:]] if starts_with_user else [opening, *rest]
    if starts_with_user or rules.start_without_user:
        return messages
    return [*system, user_text(OPENING), *rest]


def _in_words(message: ChatMessage, answers: Iterable[list[ChatMessage]]) -> list[ChatMessage]:
    """Calls and results as text, in the words of the host for models without a format for them."""
    said: ChatMessage = {**message}
    parts = parts_of(message)
    for call in said.pop("tool_calls"):
        function = call["function"]
        parts.append(text_part(f"[Calling tool: {function['name']}({function['arguments']})]"))
    said["content"] = compact(parts)
    return [said, *(each for answer in answers for each in _told(answer))]


def _told(answer: list[ChatMessage]) -> list[ChatMessage]:
    result, *images = answer
    return [user_text(f"[Tool Result ({result['tool_call_id']})]: {result['content']}"), *images]


def _apart(message: ChatMessage) -> tuple[list[ChatMessage], ChatMessage]:
    """What was said, and thought, and then the calls alone."""
    said: ChatMessage = {**message}
    calls = said.pop("tool_calls")
    return [said], {"role": "assistant", "content": "", "tool_calls": calls}


def _labelled(answers: Iterable[list[ChatMessage]]) -> list[ChatMessage]:
    """One user turn with all images of a run of results, each under the id of its call."""
    parts = []
    for result, *images in answers:
        if images:
            parts.append(text_part(IMAGES_OF.format(result["tool_call_id"])))
            parts += [part for message in images for part in parts_of(message)]
    return [{"role": "user", "content": parts}] if parts else []


def _joined(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    """Two messages as one. Where text meets text there is an empty line, which templates would not put there."""
    parts, more = parts_of(first), parts_of(second)
    if parts and more and parts[-1]["type"] == more[0]["type"] == "text":
        seam = text_part(f"{parts.pop()['text']}\n\n{more.pop(0)['text']}")
        parts.append(seam)
    return {**first, "content": compact([*parts, *more])}


def _short(call_id: str) -> str:
    if len(call_id) == _ID_LENGTH and call_id.isascii() and call_id.isalnum():
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:_ID_LENGTH]
