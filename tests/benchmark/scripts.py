"""Answers of any length, cut into pieces of the size of tokens."""

from __future__ import annotations

from collections.abc import Sequence
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
    "name": "read_file",
    "description": "Read a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


@dataclass(frozen=True)
class Scenario:
    """What the model says and what the host makes of it."""

    name: str
    pieces_of: str = "words"
    reasoning_parser: str | None = None
    tool_parser: str | None = None
    declares_tools: bool = False

    def pieces(self, count: int) -> Sequence[str]:
        return thinking(count) if self.pieces_of == "thinking" else words(count)


SCENARIOS = (
    Scenario("text"),
    Scenario("reasoning", pieces_of="thinking", reasoning_parser="qwen3"),
    Scenario("tools declared", tool_parser="hermes", declares_tools=True),
)
