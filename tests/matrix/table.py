"""The table of seams and their states by release, in ``docs/compatibility.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.matrix.releases import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = ROOT / "docs" / "compatibility.md"
BEGIN = "<!-- Written by `python -m tests.matrix table --write`; do not edit. -->"
END = "<!-- End of what is written. -->"

#: What stands for a seam that a release does not have.
ABSENT = "-"


def render(states: Mapping[str, Mapping[str, str]]) -> str:
    """The table as Markdown, a row a seam and a column a release, in the order given."""
    head = [["seam", *states], ["---"] * (len(states) + 1)]
    rows = [[seam, *(seams.get(seam, ABSENT) for seams in states.values())] for seam in _in_order(states)]
    return "\n".join(f"| {' | '.join(row)} |" for row in head + rows)


def replaced(page: str, table: str) -> str:
    """The page with this table between the marks. Raises ``ValueError`` when they are not there, once each."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ValueError(f"the page must hold {BEGIN!r} and {END!r}, in this order and once each")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def _in_order(states: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Every seam once: in the order of the newest release, with those of older ones where they stand there."""
    ordered: list[str] = []
    for seams in reversed(states.values()):
        place = 0
        for seam in seams:
            if seam not in ordered:
                ordered.insert(place, seam)
            place = ordered.index(seam) + 1
    return ordered
