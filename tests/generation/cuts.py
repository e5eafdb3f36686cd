"""Ways to cut a text into pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator


def pieces_of(text: str) -> st.SearchStrategy[list[str]]:
    """The text in pieces, cut anywhere, also into pieces that are empty."""
    positions = st.lists(st.integers(0, len(text)), max_size=12).map(sorted)
    return positions.map(lambda cuts: [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)])


def every_cut(text: str) -> Iterator[list[str]]:
    """The text cut in two at every position, and into its characters."""
    for position in range(len(text) + 1):
        yield [text[:position], text[position:]]
    yield list(text)
