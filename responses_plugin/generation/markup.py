"""Markup in the engine's text: where tool calls and thoughts begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: A special token such as ``<|im_end|>`` or ``<｜tool▁call▁begin｜>``, whole or cut off. Some models use the full-width
#: bar.
_SPECIAL = r"<[|｜][^|｜<>\s]{1,40}[|｜]>"
_SPECIAL_TAIL = re.compile(r"<([|｜]([^|｜<>\s]{1,40}[|｜]?)?)?\Z")
_LONGEST_SPECIAL = 44


class Markup:
    """The markers of one answer: literal strings, and special tokens of any name."""

    def __init__(self, markers: Iterable[str] = (), *, special_tokens: bool = True) -> None:
        self._markers = tuple(dict.fromkeys(markers))
        self._pattern = re.compile("|".join([*map(re.escape, self._markers), *([_SPECIAL] if special_tokens else [])]))
        self._first_characters = frozenset("<").union(marker[0] for marker in self._markers)
        #: No marker is longer than this.
        self.longest = max(_LONGEST_SPECIAL, *map(len, self._markers)) if self._markers else _LONGEST_SPECIAL

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker may begin in ``text``. Mostly none can, and that is quickly said."""
        return not self._first_characters.isdisjoint(text)

    def find(self, text: str) -> int:
        """Where the first marker begins; -1 if there is none."""
        found = self._pattern.search(text)
        return found.start() if found else -1

    def suspicious(self, text: str) -> int:
        """Length of the tail of ``text`` that may be the beginning of a marker."""
        tail = text[-self.longest :]
        special = _SPECIAL_TAIL.search(tail)
        longest = len(tail) - special.start() if special else 0
        for length in range(len(tail), longest, -1):
            if any(marker.startswith(tail[-length:]) for marker in self._markers):
                return length
        return longest


class MarkupWatch:
    """Tells whether the text so far holds a marker, however it is cut.

    A thought that only talks about markup counts as well: the host's incremental parsers do not know better either.
    """

    def __init__(self, markup: Markup) -> None:
        self._markup = markup
        self._tail = ""
        self.seen = False

    def feed(self, piece: str) -> None:
        """Take more of the text."""
        text = self._tail + piece
        self._tail = ""
        if not self.seen and self._markup.may_begin_in(text):
            self.seen = self._markup.find(text) >= 0
            # Nothing else can become a marker; it is looked at again with the next piece.
            self._tail = text[len(text) - self._markup.suspicious(text) :]
