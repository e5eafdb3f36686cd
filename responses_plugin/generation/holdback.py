"""Text of a stream that is not certain yet is held back.

The host's incremental parsers let markup through when it is cut across chunks (``<tool_`` + ``call>``), and show
white space that its whole-text parsers strip. A :class:`TextGate` lets out only what stands before the first marker:
it drops leading white space, holds white space until something follows, and holds a tail that may be the beginning of
a marker. What comes after a marker waits until the host's whole-text parser has said what it means.
"""

from __future__ import annotations

import logging

from responses_plugin.generation.markup import Markup

logger = logging.getLogger(__name__)


class TextGate:
    """Holds back uncertain text of one answer. Work per piece does not grow with the length of the answer."""

    def __init__(self, markup: Markup | None = None) -> None:
        """Without ``markup`` only white space is held back."""
        self._markup = markup
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
        certain = len(pending)
        if self._markup is not None and self._markup.may_begin_in(pending):
            marker = self._markup.find(pending)
            if marker >= 0:
                self._waiting = [pending[marker:]]
                pending = pending[:marker]
                certain = marker
            else:
                certain -= self._markup.suspicious(pending)
        certain = len(pending[:certain].rstrip())
        self._held = pending[certain:]
        return self._release(pending[:certain])

    def wait(self) -> None:
        """Let nothing through any more but what :meth:`catch_up` and :meth:`settle` say."""
        if self._waiting is None:
            self._waiting = [self._held]
            self._held = ""

    def catch_up(self, content: str) -> str:
        """The rest of the text that stands before the first marker of ``content``, the text so far."""
        self.wait()
        certain = TextGate(self._markup).feed(content)
        released = "".join(self._released)
        return self._release(certain[len(released) :]) if certain.startswith(released) else ""

    def settle(self, whole: str | None) -> str:
        """The rest of the answer's text, given the ``whole`` text as the host understood it, None if it cannot tell.

        Some of its parsers drop the text before a call, some the text after it; what was released stays.
        """
        if whole is None:
            rest = (self._held + "".join(self._waiting or ())).rstrip()
            return self._release(rest if self._released else rest.lstrip())
        whole = whole.strip()
        released = "".join(self._released)
        if whole.startswith(released):
            return self._release(whole[len(released) :])
        if whole and not released.startswith(whole):
            logger.warning("the text that was streamed is not the beginning of the whole answer's text")
        return ""

    def _release(self, text: str) -> str:
        if text:
            self._released.append(text)
        return text
