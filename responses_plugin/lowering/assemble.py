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
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from responses_plugin.lowering.messages import ChatMessage, ChatPart, compact, note, text_part

#: What a call without an output is answered with.
NO_OUTPUT = "[No output was recorded for this call]"
_ORPHAN = "output of call {}, which is not part of this conversation"
_SYSTEM_ROLES = ("system", "developer")


def assemble(instructions: str | None, groups: Sequence[list[ChatMessage]]) -> list[ChatMessage]:
    """``groups`` holds the messages of one item each."""
    opening = _opening_length(groups)
    messages = _system_message(instructions, groups[:opening])
    rest = groups[opening:]
    outputs = _Outputs(rest)
    messages.extend(_displaced(groups[:opening]))
    turn: list[ChatMessage] = []
    for index, group in enumerate(rest):
        if outputs.is_output(index):
            # What was called after an output was not called together with what was called before it.
            messages.extend(_close(turn, outputs))
            if outputs.is_orphan(index):
                messages.extend(_orphan(group))
            continue
        for message in group:
            if message["role"] == "assistant":
                turn.append(message)
            else:
                messages.extend(_close(turn, outputs))
                messages.append(_in_place(message))
    messages.extend(_close(turn, outputs))
    return messages


def _opening_length(groups: Sequence[list[ChatMessage]]) -> int:
    for index, group in enumerate(groups):
        if not group or group[0]["role"] not in _SYSTEM_ROLES:
            return index
    return len(groups)


def _system_message(instructions: str | None, opening: Iterable[list[ChatMessage]]) -> list[ChatMessage]:
    parts = [text_part(instructions)] if instructions else []
    for group in opening:
        parts.extend(_parts(group[0]))
    if not parts:
        return []
    if all(part["type"] == "text" for part in parts):
        return [{"role": "system", "content": "\n\n".join(part["text"] for part in parts)}]
    return [{"role": "system", "content": parts}]


def _displaced(opening: Iterable[list[ChatMessage]]) -> list[ChatMessage]:
    """What the opening messages brought along besides themselves: the user turns with their images."""
    return [message for group in opening for message in group[1:]]


def _parts(message: ChatMessage) -> list[ChatPart]:
    content = message["content"]
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return content


def _in_place(message: ChatMessage) -> ChatMessage:
    """A late system or developer message as a user turn that says what it is."""
    role = message["role"]
    if role not in _SYSTEM_ROLES:
        return message
    parts = [text_part(f"<{role}_message>"), *_parts(message), text_part(f"</{role}_message>")]
    return {"role": "user", "content": compact(parts)}


def _close(turn: list[ChatMessage], outputs: _Outputs) -> list[ChatMessage]:
    """Merge the assistant messages collected so far into one, followed by the outputs of its calls; empties ``turn``."""
    if not turn:
        return []
    merged: ChatMessage = {
        "role": "assistant",
        "content": compact([part for message in turn for part in _parts(message)]),
    }
    reasoning = "\n".join(message["reasoning_content"] for message in turn if "reasoning_content" in message)
    if reasoning:
        merged["reasoning_content"] = reasoning
    calls = [call for message in turn for call in message.get("tool_calls", [])]
    if calls:
        merged["tool_calls"] = calls
    turn.clear()
    messages = [merged]
    for call in calls:
        messages.extend(outputs.take(call["id"]))
    return messages


def _orphan(group: list[ChatMessage]) -> list[ChatMessage]:
    output, *images = group
    content = output["content"]
    assert isinstance(content, str), "tool messages hold text"
    return [note(_ORPHAN.format(output["tool_call_id"]), content), *images]


class _Outputs:
    """Finds, for each call, the output that answers it: the first one after it with its id that is still free."""

    def __init__(self, groups: Sequence[list[ChatMessage]]) -> None:
        self._groups = groups
        self._answers: dict[str, deque[int]] = defaultdict(deque)
        self._orphans: set[int] = set()
        self._outputs: set[int] = set()
        waiting: dict[str, int] = defaultdict(int)
        for index, group in enumerate(groups):
            for message in group[:1]:
                for call in message.get("tool_calls", []):
                    waiting[call["id"]] += 1
                if message["role"] != "tool":
                    continue
                self._outputs.add(index)
                call_id = message["tool_call_id"]
                if waiting[call_id]:
                    waiting[call_id] -= 1
                    self._answers[call_id].append(index)
                else:
                    self._orphans.add(index)

    def is_output(self, index: int) -> bool:
        return index in self._outputs

    def is_orphan(self, index: int) -> bool:
        return index in self._orphans

    def take(self, call_id: str) -> list[ChatMessage]:
        answers = self._answers[call_id]
        if answers:
            return self._groups[answers.popleft()]
        return [{"role": "tool", "tool_call_id": call_id, "content": NO_OUTPUT}]
