"""Lowered items → one conversation that chat templates accept.

Every item was lowered on its own. Here they are put together, by rules that look only backwards, apart from finding
the output of a call. So the messages of one turn are a prefix of those of the next, whoever replays them, and the
host's prefix cache keeps hitting:

* Instructions and the system and developer messages that open the conversation become one system message.
* Later system and developer messages stay where they are, as user turns in ``<developer_message>`` tags: hoisting
  them would change the beginning of the prompt, and with it everything that is cached.
* Adjacent assistant messages (reasoning, text, calls) become one.
* The output of a call follows the message that holds the call, in the order of the calls, wherever it stood. Agents
  that were interrupted resume with gaps, so gaps are filled rather than refused: a call nobody answered gets the
  output :data:`NO_OUTPUT`, an output that answers no call becomes a user note.
* Calls that share an id are answered in order, each by the next output with that id.

What the model's chat template does not take is then placed otherwise; see ``placement``.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import takewhile

from responses_plugin.lowering.messages import ChatMessage, compact, note, parts_of, text_part, user_text
from responses_plugin.lowering.placement import fit, fit_ids, lay_out
from responses_plugin.lowering.template import TemplateRules

#: What a call without an output is answered with.
NO_OUTPUT = "[No output was recorded for this call]"
_ORPHAN = "output of call {}, which no call in this conversation is waiting for"
_SYSTEM_ROLES = ("system", "developer")


def assemble(
    instructions: str | None,
    groups: Iterable[list[ChatMessage]],
    rules: TemplateRules,
    answer_format: str | None = None,
    reminder: str | None = None,
) -> list[ChatMessage]:
    """``groups`` holds the messages of one item each; an empty one is an item that was dropped.

    ``answer_format`` ends the system message: what opens it is the same for every request of a client. ``reminder``
    ends the conversation: it holds for one answer, and so that the prompt stays the same up to here it stands last.
    """
    groups = [[fit_ids(message, rules) for message in group] for group in groups if group]
    opening = list(takewhile(lambda group: group[0]["role"] in _SYSTEM_ROLES, groups))
    # What the opening messages brought along, the user turns with their images, follows the system message.
    rest = [*(group[1:] for group in opening), *groups[len(opening) :]]
    units = [unit for group in rest for unit in _units(group)]
    outputs = _Outputs(units)
    messages = _system_message(instructions, [group[0] for group in opening], answer_format)
    turn: list[ChatMessage] = []
    for index, unit in enumerate(units):
        message = unit[0]
        if message["role"] == "assistant":
            turn.append(message)
            continue
        # What was called after an output was not called together with what was called before it.
        messages.extend(_close(turn, outputs, rules))
        if message["role"] != "tool":
            messages.append(_in_place(message))
        elif outputs.is_orphan(index):
            messages.extend(_orphan(unit))
    messages.extend(_close(turn, outputs, rules))
    return fit(_reminded(messages, reminder) if reminder else messages, rules)


def _units(group: list[ChatMessage]) -> list[list[ChatMessage]]:
    """The messages of one item, each on its own, but a tool message together with the user turns that follow it: they
    hold its images.
    """
    units: list[list[ChatMessage]] = []
    for message in group:
        if units and units[-1][0]["role"] == "tool" and message["role"] == "user":
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _system_message(
    instructions: str | None, opening: Iterable[ChatMessage], answer_format: str | None
) -> list[ChatMessage]:
    parts = [text_part(instructions)] if instructions else []
    for message in opening:
        parts.extend(parts_of(message))
    if answer_format:
        parts.append(text_part(answer_format))
    if not parts:
        return []
    if all(part["type"] == "text" for part in parts):
        return [{"role": "system", "content": "\n\n".join(part["text"] for part in parts)}]
    return [{"role": "system", "content": parts}]


def _in_place(message: ChatMessage) -> ChatMessage:
    """A late system or developer message as a user turn that says what it is."""
    role = message["role"]
    if role not in _SYSTEM_ROLES:
        return message
    parts = [text_part(f"<{role}_message>"), *parts_of(message), text_part(f"</{role}_message>")]
    return {"role": "user", "content": compact(parts)}


def _reminded(messages: list[ChatMessage], reminder: str) -> list[ChatMessage]:
    """The conversation with words of ours at the end of its last turn.

    A user turn of their own would begin a new exchange: templates leave out the thoughts of earlier ones.
    """
    words = ["<developer_message>", reminder, "</developer_message>"]
    last = messages[-1] if messages else None
    if last is None or last["role"] not in ("user", "tool"):
        return [*messages, user_text("\n".join(words))]
    return [*messages[:-1], {**last, "content": compact([*parts_of(last), *map(text_part, words)])}]


def _close(turn: list[ChatMessage], outputs: _Outputs, rules: TemplateRules) -> list[ChatMessage]:
    """Merge the assistant messages collected so far into one, followed by the outputs of its calls; empties ``turn``."""
    if not turn:
        return []
    merged: ChatMessage = {
        "role": "assistant",
        "content": compact([part for message in turn for part in parts_of(message)]),
    }
    reasoning = "\n".join(message["reasoning_content"] for message in turn if "reasoning_content" in message)
    if reasoning:
        merged["reasoning_content"] = reasoning
    calls = [call for message in turn for call in message.get("tool_calls", [])]
    turn.clear()
    if not calls:
        return [merged]
    merged["tool_calls"] = calls
    return lay_out(merged, [outputs.take(call["id"]) for call in calls], rules)


def _orphan(group: list[ChatMessage]) -> list[ChatMessage]:
    output, *images = group
    content = output["content"]
    assert isinstance(content, str), "tool messages hold text"
    return [note(_ORPHAN.format(output["tool_call_id"]), content), *images]


class _Outputs:
    """Finds, for each call, the output that answers it: the first one after it with its id that is still free."""

    def __init__(self, units: Sequence[list[ChatMessage]]) -> None:
        self._answers: dict[str, deque[list[ChatMessage]]] = defaultdict(deque)
        self._orphans: set[int] = set()
        waiting: Counter[str] = Counter()
        for index, unit in enumerate(units):
            message = unit[0]
            for call in message.get("tool_calls", []):
                waiting[call["id"]] += 1
            if message["role"] != "tool":
                continue
            call_id = message["tool_call_id"]
            if waiting[call_id]:
                waiting[call_id] -= 1
                self._answers[call_id].append(unit)
            else:
                self._orphans.add(index)

    def is_orphan(self, index: int) -> bool:
        """Whether the output at ``index`` answers no call."""
        return index in self._orphans

    def take(self, call_id: str) -> list[ChatMessage]:
        """The output of the next call with this id, with its images."""
        answers = self._answers[call_id]
        if answers:
            return answers.popleft()
        return [{"role": "tool", "tool_call_id": call_id, "content": NO_OUTPUT}]
