"""Conversations as clients send them, each text and image in them marked, so that a test can say where it went."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from responses_plugin.lowering.messages import ChatMessage

Json = dict[str, Any]

_MARK = re.compile(r"#\d+#")
#: Names that hosts take and such as they refuse.
_NAMES = ["look", "files.list", "mcp/add", "é"]
_UNKNOWN_ITEMS = ["telepathy_call", "acme:thing"]


@dataclass
class Conversation:
    """Items and the marks in them, in the order in which a model is to read them."""

    items: list[Json] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    #: Where a request may end: before each answer of the model, and at the end.
    boundaries: list[int] = field(default_factory=list)

    def mark(self) -> str:
        self.texts.append(f"#{len(self.texts)}#")
        return self.texts[-1]

    def image(self) -> str:
        self.images.append(f"https://example.com/{len(self.images)}.png")
        return self.images[-1]


def marks_of(messages: Sequence[ChatMessage]) -> list[str]:
    """The marks that reach the model, in the order in which a template writes them."""
    found: list[str] = []
    for message in messages:
        content = message["content"]
        written = [
            message.get("reasoning_content", ""),
            content if isinstance(content, str) else "".join(json.dumps(part) for part in content),
            *(call["function"]["arguments"] for call in message.get("tool_calls", [])),
        ]
        found += _MARK.findall("".join(written))
    return found


def images_of(messages: Sequence[ChatMessage]) -> list[str]:
    """The images that reach the model, in order."""
    return [
        part["image_url"]["url"]
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]


# --- Items ----------------------------------------------------------------------------------------------------------

Draw = Any


def _part(draw: Draw, to: Conversation, kinds: Sequence[str]) -> Json:
    kind: str = draw(st.sampled_from(kinds))
    if kind == "image":
        url = to.image()
        forms: list[Json] = [
            {"type": "input_image", "image_url": url},
            {"type": "input_image", "image_url": {"url": url}, "detail": "high"},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        form: Json = draw(st.sampled_from(forms))
        return form
    if kind == "unknown":
        return {"type": "hologram", "data": {"deep": [None, to.mark()]}}
    if kind == "refusal":
        return {"type": "refusal", "refusal": to.mark()}
    return {"type": kind, "text": f" {to.mark()}\n"}


def _content(draw: Draw, to: Conversation, kinds: Sequence[str]) -> Any:
    if draw(st.booleans()):
        return to.mark()
    return [_part(draw, to, kinds) for _ in range(draw(st.integers(1, 3)))]


def _message(draw: Draw, to: Conversation, role: str, kinds: Sequence[str]) -> Json:
    forms: list[Json] = [{}, {"type": "message"}, {"type": "message", "id": None, "status": "completed"}]
    return {**forms[draw(st.integers(0, len(forms) - 1))], "role": role, "content": _content(draw, to, kinds)}


def user_message(draw: Draw, to: Conversation) -> Json:
    return _message(draw, to, "user", ["input_text", "text", "image", "unknown"])


def assistant_message(draw: Draw, to: Conversation) -> Json:
    return _message(draw, to, "assistant", ["output_text", "refusal", "image"])


def system_message(draw: Draw, to: Conversation) -> Json:
    return _message(draw, to, draw(st.sampled_from(["system", "developer"])), ["input_text", "image"])


def reasoning(draw: Draw, to: Conversation) -> Json:
    if draw(st.booleans()):
        return {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": to.mark()}],
            "encrypted_content": "blob",
        }
    content = [{"type": "reasoning_text", "text": to.mark()} for _ in range(draw(st.integers(1, 2)))]
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "short"}],
        "content": content,
    }


def tool_call(draw: Draw, to: Conversation, call_id: str) -> Json:
    name = draw(st.sampled_from(_NAMES))
    kind = draw(st.sampled_from(["function", "custom", "shell", "apply_patch"]))
    if kind == "shell":
        return {"type": "shell_call", "call_id": call_id, "action": {"commands": [to.mark()], "timeout_ms": None}}
    if kind == "apply_patch":
        return {"type": "apply_patch_call", "call_id": call_id, "operation": {"type": "delete_file", "path": to.mark()}}
    if kind == "custom":
        return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": f'"{to.mark()}\\ é\n'}
    arguments = draw(st.sampled_from(['{"at": "%s"}', '{"at": "%s', "%s"])) % to.mark()
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}


def tool_output(draw: Draw, to: Conversation, call_id: str) -> Json:
    kind = draw(st.sampled_from(["function", "custom_tool", "apply_patch", "shell"])) + "_call_output"
    if kind == "shell_call_output":
        results = [{"stdout": to.mark(), "stderr": to.mark(), "outcome": {"type": "exit", "exit_code": 0}}]
        return {"type": kind, "call_id": call_id, "output": results}
    value: Any = to.mark() if draw(st.booleans()) else None
    if value is None:
        # Texts are joined before what is kept as JSON, so marks are handed out in that order.
        texts = [_part(draw, to, ["input_text", "text"]) for _ in range(draw(st.integers(0, 2)))]
        others = [_part(draw, to, ["image", "unknown"]) for _ in range(draw(st.integers(0, 3)))]
        value = [*others[:1], *texts, *others[1:]]
    return {"type": kind, "call_id": call_id, "output": value}


def unknown_item(draw: Draw, to: Conversation) -> Json:
    return {
        "type": draw(st.sampled_from(_UNKNOWN_ITEMS)),
        "id": "x_1",
        "status": "completed",
        "action": {"q": [to.mark()]},
    }


# --- Conversations --------------------------------------------------------------------------------------------------


@st.composite
def any_items(draw: Draw) -> Conversation:
    """Well-formed items in any order: outputs before their calls, calls that share ids, messages in between."""
    made = Conversation()
    makers: list[Callable[[], Json]] = [
        lambda: user_message(draw, made),
        lambda: assistant_message(draw, made),
        lambda: system_message(draw, made),
        lambda: reasoning(draw, made),
        lambda: tool_call(draw, made, draw(st.sampled_from("ab"))),
        lambda: tool_output(draw, made, draw(st.sampled_from("abc"))),
        lambda: unknown_item(draw, made),
    ]
    for _ in range(draw(st.integers(1, 8))):
        made.items.append(draw(st.sampled_from(makers))())
    return made


@st.composite
def agent_conversations(draw: Draw, *, parallel_outputs_shuffled: bool = False) -> Conversation:
    """A session as agents have it: people and the client say something, the model thinks, speaks, calls, is answered."""
    made = Conversation()
    made.items += [system_message(draw, made) for _ in range(draw(st.integers(0, 2)))]
    for turn in range(draw(st.integers(1, 3))):
        made.items.append(user_message(draw, made))
        for maker in draw(st.lists(st.sampled_from([user_message, system_message, unknown_item]), max_size=2)):
            made.items.append(maker(draw, made))
        for step in range(draw(st.integers(1, 3))):
            made.boundaries.append(len(made.items))
            if draw(st.booleans()):
                made.items.append(reasoning(draw, made))
            call_ids = [f"call_{turn}_{step}_{n}" for n in range(draw(st.integers(0, 3)))]
            if draw(st.booleans()) or not call_ids:
                made.items.append(assistant_message(draw, made))
            made.items += [tool_call(draw, made, call_id) for call_id in call_ids]
            outputs = [tool_output(draw, made, call_id) for call_id in call_ids]
            made.items += draw(st.permutations(outputs)) if parallel_outputs_shuffled else outputs
            if not call_ids:
                break
    made.boundaries.append(len(made.items))
    return made
