"""A stream shows what the non-streaming answer to the same text says, with every tool parser of the host.

The host's incremental parsers differ from its whole-text ones in many ways: they leak markup that is cut across
pieces, repeat calls, lose text before a call or the order of things. None of it may reach a client.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.host.scripted import Script, ScriptedHost
from tests.sse import read_stream, terminal_response

Call = Callable[[str, str, str], str]

TOOLS = [
    {
        "type": "function",
        "name": "list_files",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
    {"type": "custom", "name": "apply_patch"},
]
PATCH = '*** Begin Patch\n*** Update File: a.txt\n-té "q" \\n 😀\n+<b>x</b>\n*** End Patch'
THOUGHT = "<think>\nI should use <tool_call> here, maybe.\n</think>\n\n"
PLAIN_THOUGHT = "<think>\nI should look, maybe.\n</think>\n\n"


def _object(key: str, value: str) -> str:
    return json.dumps({key: value})


def _hermes(name: str, key: str, value: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {_object(key, value)}}}\n</tool_call>'


def _xml(name: str, key: str, value: str) -> str:
    return f"<tool_call>\n<function={name}>\n<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>"


def _glm(name: str, key: str, value: str) -> str:
    return f"<tool_call>{name}\n<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>"


def _deepseek(name: str, key: str, value: str) -> str:
    begin = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
    return f"{begin}{name}\n```json\n{_object(key, value)}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


def _dsml(name: str, key: str, value: str) -> str:
    parameter = f'<｜DSML｜parameter name="{key}" string="true">{value}</｜DSML｜parameter>'
    return (
        f'<｜DSML｜tool_calls>\n<｜DSML｜invoke name="{name}">\n{parameter}\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
    )


def _kimi(name: str, key: str, value: str) -> str:
    call = f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{_object(key, value)}<|tool_call_end|>"
    return f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"


def _minimax(name: str, key: str, value: str) -> str:
    invoke = f'<invoke name="{name}">\n<parameter name="{key}">{value}</parameter>\n</invoke>'
    return f"<minimax:tool_call>\n{invoke}\n</minimax:tool_call>"


#: How a model of each parser writes a call.
PARSERS: dict[str, Call] = {
    "auto": _hermes,
    "deepseek": _deepseek,
    "deepseek_v4": _dsml,
    "functionary": lambda name, key, value: f"<function={name}>{_object(key, value)}</function>",
    "gemma4": lambda name, key, value: f'<|tool_call>call:{name}{{{key}:<|"|>{value}<|"|>}}<tool_call|>',
    "glm47": _glm,
    "granite": lambda name, key, value: f'<|tool_call|>[{{"name": "{name}", "arguments": {_object(key, value)}}}]',
    "harmony": lambda name, key, value: (
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{_object(key, value)}<|call|>"
    ),
    "hermes": _hermes,
    "kimi": _kimi,
    "llama": lambda name, key, value: f"<function={name}>{_object(key, value)}</function>",
    "minimax": _minimax,
    "mistral": lambda name, key, value: f"[TOOL_CALLS]{name}{_object(key, value)}",
    "nemotron": _xml,
    "poolside_v1": _glm,
    "qwen": _hermes,
    "qwen3_xml": _xml,
    "step3p5": _xml,
    "xlam": lambda name, key, value: f'[{{"name": "{name}", "arguments": {_object(key, value)}}}]',
}
#: These markers are single tokens of every model that writes them. Cut in two, or in a thought, they make the host's
#: incremental parser mix up two calls, which cannot be told from the real ones while their arguments arrive.
WHOLE_MARKERS = {"poolside_v1": ("<tool_call>", "</tool_call>")}


def answers(call: Call) -> Iterator[tuple[str, str]]:
    """What a model may write, by name."""
    look = call("list_files", "path", "src/a")
    yield "a call", look
    yield "text and a call", f"Let me look.\n\n{look}"
    yield "two calls", look + "\n" + call("list_files", "path", "src/b")
    yield "a patch", call("apply_patch", "input", PATCH)
    yield "text after a call", f"{look}\nDone."
    yield "plain text", '  Hello <b>world</b>, a[0] < 3 {"x": 1} \n\nBye. \n'
    yield "text about markup", "Use <tool_call> tags or [TOOL_CALLS] if you must.\n"


def cuts(text: str, keep: tuple[str, ...], seed: int) -> list[list[str]]:
    """The text in pieces: character by character, and cut at random; ``keep`` is never cut."""
    atoms = [text]
    for marker in keep:
        atoms = [atom for part in atoms for atom in _split_around(part, marker)]
    characters = [piece for atom in atoms for piece in ([atom] if atom in keep else atom)]
    dice = random.Random(seed)
    pieces: list[str] = []
    for character in characters:
        if pieces and len(pieces[-1]) < dice.choice([1, 2, 3, 5, 8]) and not {character, pieces[-1]} & set(keep):
            pieces[-1] += character
        else:
            pieces.append(character)
    return [characters, pieces]


def _split_around(text: str, marker: str) -> list[str]:
    parts = text.split(marker)
    return [piece for part in parts for piece in (part, marker)][:-1]


def without_ids(response: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    items = [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in response["output"]]
    return response["status"], items


@pytest.mark.parametrize("reasoning_parser", [None, "qwen3"], ids=["plain", "thinking"])
@pytest.mark.parametrize("parser", PARSERS)
async def test_a_stream_says_what_the_whole_answer_says(parser, reasoning_parser):
    """Same items, same text, same arguments, however the text is cut; no part of a marker is ever shown."""
    thought = "" if reasoning_parser is None else PLAIN_THOUGHT if parser in WHOLE_MARKERS else THOUGHT
    for seed, (label, answer) in enumerate(answers(PARSERS[parser])):
        text = thought + answer
        for pieces in cuts(text, WHOLE_MARKERS.get(parser, ()), seed):
            with ScriptedHost(Script(pieces), tool_parser=parser, reasoning_parser=reasoning_parser) as host:
                whole = await host.post(input="go", tools=TOOLS)
                streamed = await host.post(input="go", tools=TOOLS, stream=True)
            events = read_stream(streamed.content)
            assert without_ids(terminal_response(events)) == without_ids(whole.json()), f"{label}: {pieces}"


@pytest.mark.parametrize("opens_thinking", [False, True], ids=["closed", "opened"])
@pytest.mark.parametrize("finish_reason", ["stop", "length"])
@pytest.mark.parametrize(
    "text", ["All done.", "<think>\nhm", "hm\n</think>\n\nDone.", "<think>\nhm\n</think>\n\nDone."]
)
async def test_thoughts_with_and_without_tags_are_the_same_both_ways(text, finish_reason, opens_thinking):
    """A model that does not think, one that is cut off while it does, and one whose prompt opened the thought."""
    with ScriptedHost(
        Script(list(text), finish_reason=finish_reason), reasoning_parser="qwen3", opens_thinking=opens_thinking
    ) as host:
        whole = await host.post(input="go")
        events = await host.stream(input="go")
    assert without_ids(terminal_response(events)) == without_ids(whole.json())
    if "Done." in text:
        assert "Done." in json.dumps([item for item in whole.json()["output"] if item["type"] == "message"])


async def test_an_answer_without_a_thought_is_no_thought():
    """A thinking model that answers at once, with a prompt that opened no thought."""
    with ScriptedHost(Script(list("All done.")), reasoning_parser="qwen3") as host:
        _, items = without_ids(terminal_response(await host.stream(input="go")))
    assert [item["type"] for item in items] == ["message"]


@pytest.mark.parametrize("parser", PARSERS)
async def test_calls_are_understood(parser):
    """With every parser a call is a call of the declared kind, with its text before it."""
    answer = "Let me see.\n\n" + PARSERS[parser]("apply_patch", "input", PATCH)
    with ScriptedHost(Script(list(answer)), tool_parser=parser) as host:
        _, (message, call) = without_ids(terminal_response(await host.stream(input="go", tools=TOOLS)))
    assert message["content"][0]["text"] == "Let me see."
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "apply_patch", PATCH)
