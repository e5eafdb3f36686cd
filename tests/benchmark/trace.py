"""An agent's session of twelve turns, as a client replays it: the whole history each time.

Every turn is what the tiny model really answers, so that an engine that keeps its answers finds them again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests import tiny
from tests.images import data_url

Item = dict[str, Any]

TURNS = 12

_WORDS = "you are a helpful coding assistant agent that works in the user workspace "
#: Long enough for every cache of the host to be worth its while.
_INSTRUCTIONS = _WORDS * 10
_ADVICE = "You are a helpful assistant agent and you work in the user workspace."


@dataclass(frozen=True)
class Turn:
    """What the client adds to the history, and what the model says to it."""

    new: list[Item]
    answer: list[Item]


def session(*, images: bool) -> list[Turn]:
    """The twelve turns. Without ``images`` two more questions about the weather take the place of the screenshots."""
    return [
        Turn([_message("user", "hello")], [_said(tiny.GREETING)]),
        *_weather("call_1", "Paris"),
        *_patching("call_2"),
        *(_screenshot("call_3", "red") if images else _weather("call_3", "Rome")),
        *_advised(_weather("call_4", "Paris")),
        *(_screenshot("call_5", "green") if images else _weather("call_5", "Rome")),
        # One more question, whose answer ends the session.
        *_weather("call_6", "Paris")[:1],
    ]


def replays(turns: list[Turn]) -> list[list[Item]]:
    """The input of each turn's request."""
    history: list[Item] = []
    inputs = []
    for turn in turns:
        history += turn.new
        inputs.append(list(history))
        history += turn.answer
    return inputs


def request(items: list[Item]) -> dict[str, Any]:
    """The body for ``/v1/responses``."""
    return {
        "model": tiny.MODEL,
        "instructions": _INSTRUCTIONS,
        "input": items,
        "tools": tiny.RESPONSES_TOOLS,
        "temperature": 0,
        "max_output_tokens": 60,
    }


def said(items: list[Item]) -> list[str]:
    """What an answer comes down to: its texts, and the names of the tools that it calls."""
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    return [*texts, *(item["name"] for item in items if item["type"].endswith("_call"))]


# --- Turns -----------------------------------------------------------------------------------------------------------


def _weather(call_id: str, city: str) -> list[Turn]:
    question = _message("user", tiny.ASK_WEATHER.replace("Paris", city))
    answer = tiny.WEATHER_ANSWER.replace("Paris", city)
    return _exchange(question, _function_call(call_id, "get_weather", city=city), tiny.WEATHER_RESULT, answer)


def _screenshot(call_id: str, colour: str) -> list[Turn]:
    output = [{"type": "input_image", "image_url": data_url(colour)}]
    call = _function_call(call_id, "screenshot")
    return _exchange(_message("user", tiny.ASK_SCREENSHOT), call, output, tiny.screenshot_answer(colour))


def _patching(call_id: str) -> list[Turn]:
    call = {"type": "custom_tool_call", "call_id": call_id, "name": "apply_patch", "input": tiny.PATCH}
    return _exchange(_message("user", tiny.ASK_PATCH), call, "Done!", tiny.PATCH_ANSWER)


def _exchange(question: Item, call: Item, output: Any, answer: str) -> list[Turn]:
    result = {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": output}
    return [Turn([question], [call]), Turn([result], [_said(answer)])]


def _advised(turns: list[Turn]) -> list[Turn]:
    """The same turns, with a developer message in front of them."""
    first, *others = turns
    return [Turn([_message("developer", _ADVICE), *first.new], first.answer), *others]


# --- Items -----------------------------------------------------------------------------------------------------------


def _message(role: str, text: str) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _said(text: str) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def _function_call(call_id: str, name: str, **arguments: str) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
