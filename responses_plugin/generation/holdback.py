"""Text of a stream that is not certain yet is held back.

The host's incremental parsers let markup through when it is cut across chunks (``<tool_`` + ``call>``), and show
white space that its whole-text parsers strip. A :class:`TextGate` lets out only what the whole answer will contain
as well: it drops leading white space, holds white space until something follows, and holds a tail that may be the
beginning of markup. Once real markup shows up, all further text waits for the end, when the host's whole-text
parser has said what it means.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

logger = logging.getLogger(__name__)

#: A special token such as ``<|im_end|>``, whole or cut off.
_SPECIAL = r"<\|[^|<>\s]{1,40}\|>"
_SPECIAL_TAIL = re.compile(r"<(\|([^|<>\s]{1,40}\|?)?)?$")


class TextGate:
    """Holds back uncertain text of one answer. Work per piece does not grow with the length of the answer."""

    def __init__(self, markers: Iterable[str] = ()) -> None:
        """``markers`` are the strings that begin or end markup."""
        self._markers = tuple(dict.fromkeys(markers))
        self._marker = re.compile("|".join([*map(re.escape, self._markers), _SPECIAL]))
        self._first_characters = frozenset("<").union(marker[0] for marker in self._markers)
        self._longest = max((len(marker) for marker in self._markers), default=0)
        self._held = ""
        self._waiting: list[str] | None = None
        self._released: list[str] = []

    def feed(self, text: str) -> str:
        """Take a piece of text; returns what is certain now."""
        if self._waiting is not None:
            self._waiting.append(text)
            return ""
        pending = self._held + text
        if not self._released:
            pending = pending.lstrip()
        if not self._first_characters.isdisjoint(pending):
            if found := self._marker.search(pending):
                self._waiting = [pending[found.start() :]]
                pending = pending[: found.start()]
                certain = len(pending)
            else:
                certain = len(pending) - self._suspicious(pending)
        else:
            certain = len(pending)
        certain = len(pending[:certain].rstrip())
        self._held = pending[certain:]
        return self._release(pending[:certain])

    def wait(self) -> None:
        """Hold everything from here on until :meth:`settle`."""
        if self._waiting is None:
            self._waiting = [self._held]
            self._held = ""

    def settle(self, whole: str | None) -> str:
        """The rest of the answer's text, given the ``whole`` text as the host understood it, None if it cannot tell."""
        released = "".join(self._released)
        if whole is None:
            return self._release((self._held + "".join(self._waiting or ())).rstrip())
        whole = whole.strip()
        if not whole.startswith(released):
            logger.warning("the streamed text differs from the text of the whole answer")
            return ""
        return self._release(whole[len(released) :])

    def _release(self, text: str) -> str:
        if text:
            self._released.append(text)
        return text

    def _suspicious(self, text: str) -> int:
        """Length of the tail of ``text`` that may be the beginning of markup."""
        special = _SPECIAL_TAIL.search(text, max(0, len(text) - 43))
        if special:
            return len(text) - special.start()
        for length in range(min(len(text), self._longest - 1), 0, -1):
            tail = text[-length:]
            if any(marker.startswith(tail) for marker in self._markers):
                return length
        return 0
