"""Thoughts that were never closed.

The host's whole-text parsers find a thought by the tag that ends it. An answer that was cut off while the model was
still thinking has none, and would be shown as text, tag and all.
"""

from __future__ import annotations


def split_unclosed_thought(text: str, *, start: str, end: str, opened: bool) -> tuple[str, str]:
    """``text`` as (thought, answer).

    ``start`` and ``end`` are the tags; ``opened`` says that the prompt opened the thought and the budget ran out, so
    that everything is thought even without a tag.
    """
    stripped = text.strip()
    if end in stripped:
        return "", text
    if stripped.startswith(start):
        return stripped[len(start) :].strip(), ""
    return (stripped, "") if opened else ("", text)
