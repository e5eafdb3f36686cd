"""Markdown pages as the tests need them: their headings, links and code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"

_FENCE = re.compile(r"^```(.*)$")
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$")
_LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Block:
    """One fenced block. ``info`` is what stands behind the fence: the language, then words of ours."""

    path: Path
    line: int
    info: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        """Where to find it: ``docs/hooks.md:12``."""
        return f"{self.path.relative_to(ROOT)}:{self.line}"

    def expected_output(self) -> list[str]:
        """The lines that the block says it prints: comments that follow a print directly, or end the block."""
        lines = self.text.splitlines()
        expected: list[str] = []
        printed = False
        for line in lines:
            if printed and line.startswith("# "):
                expected.append(line.removeprefix("# "))
            else:
                printed = line.strip().startswith(("print(", "rehearse("))
        return expected


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        blocks: list[Block] = []
        opened: tuple[int, tuple[str, ...]] | None = None
        inside: list[str] = []
        for number, line in enumerate(self.text.splitlines(), 1):
            fence = _FENCE.match(line)
            if opened is None and fence:
                opened, inside = (number + 1, tuple(fence[1].split())), []
            elif opened is not None and fence:
                blocks.append(Block(self.path, *opened, "\n".join(inside) + "\n"))
                opened = None
            elif opened is not None:
                inside.append(line)
        assert opened is None, f"{self.name}: a code block is not closed"
        return blocks

    @cached_property
    def prose(self) -> str:
        """The text without its code blocks."""
        return re.sub(r"^```.*?^```$", "", self.text, flags=re.MULTILINE | re.DOTALL)

    @cached_property
    def headings(self) -> list[str]:
        return [match[2] for line in self.prose.splitlines() if (match := _HEADING.match(line))]

    @cached_property
    def anchors(self) -> set[str]:
        """What a link to a heading of this page ends with, as code hosts make it."""
        return {_NOT_IN_ANCHORS.sub("", heading.lower()).replace(" ", "-") for heading in self.headings}

    @cached_property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    def section(self, heading: str) -> str:
        """The text from a heading to the next one of the same or a higher level."""
        found: list[str] = []
        level = 0
        is_code = False
        for line in self.text.splitlines(keepends=True):
            is_code ^= line.startswith("```")
            match = None if is_code else _HEADING.match(line.rstrip("\n"))
            if match and found and len(match[1]) <= level:
                break
            if match and match[2] == heading:
                level = len(match[1])
            if level:
                found.append(line)
        assert found, f"{self.name} has no section {heading!r}"
        return "".join(found)


def all_pages() -> list[Page]:
    """The README, the change log and everything under ``docs/``."""
    return [Page(path) for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))]


def runnable_blocks(language: str, *words: str) -> list[Block]:
    return [block for page in all_pages() for block in page.blocks if block.info == (language, *words)]
