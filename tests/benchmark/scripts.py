"""Answers of any length, cut into pieces of the size of tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice

#: Words, the space before them included, as tokenizers cut them; four characters on average, as in English text.
_WORDS = (
    " the", " quick", " brown", " fox", " jump", "s", " over", " a", " lazy", " dog", ",", " and", " then", " it",
    " walks", " on", ".", "\n", "In", " un", "familiar", " places", " we", " measure", " 12", "3", " steps", ";",
    " so", " far", " so", " good", ".",
)  # fmt: skip


def words(count: int) -> list[str]:
    """``count`` pieces of prose."""
    return list(islice(cycle(_WORDS), count))


def thinking(count: int) -> list[str]:
    """``count`` pieces, the first half of them a thought between tags, each of which is a token."""
    half = count // 2
    return ["<think>", *words(half - 1), "</think>", *words(count - half - 1)]


#: A function to declare.
TOOL = {
    "type": "function",
    "name": "write_file",
    "description": "Write a file.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def calling(count: int) -> list[str]:
    """``count`` pieces, nearly all of them the arguments of one call."""
    opening = ["<tool_call>", '{"name":', ' "write_file",', ' "arguments":', ' {"text":', ' "']
    text = [json.dumps(word)[1:-1] for word in words(count - len(opening) - 3)]
    return [*opening, *text, '"', "}}", "</tool_call>"]


@dataclass(frozen=True)
class Scenario:
    """What the model says, and which of the host's parsers read it."""

    name: str
    pieces: Callable[[int], list[str]] = words
    reasoning_parser: str | None = None
    tool_parser: str | None = None
    declares_tools: bool = False


TEXT = Scenario("text")
REASONING = Scenario("reasoning", thinking, reasoning_parser="qwen3")
TOOLS = Scenario("tools declared", tool_parser="hermes", declares_tools=True)
CALL = Scenario("tool call", calling, tool_parser="hermes", declares_tools=True)
