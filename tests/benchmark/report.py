"""What the benchmark found, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Cell = str | int | float | None
#: One line of a table, by column.
Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Target:
    """A number and what it must not exceed.

    What is ``counted`` comes out the same on every machine, so that to miss it is a failure. Times depend on who else
    uses the machine.
    """

    name: str
    value: float
    limit: float
    unit: str = ""
    counted: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.limit


@dataclass(frozen=True)
class Section:
    """One table. ``note`` says how the numbers came about."""

    name: str
    note: str
    rows: Sequence[Row]
    targets: Sequence[Target] = field(default_factory=list)


def failed(sections: Sequence[Section]) -> bool:
    """Whether a target was missed that is no matter of time."""
    return any(target.counted and not target.met for section in sections for target in section.targets)


def as_text(sections: Sequence[Section]) -> str:
    """Tables, and a list of the targets under them."""
    blocks = [f"{section.name}\n{section.note}\n\n{_table(section.rows)}" for section in sections]
    targets = [_target_row(target) for section in sections for target in section.targets]
    return "\n\n".join([*blocks, f"targets\n\n{_table(targets)}"]) + "\n"


def as_json(sections: Sequence[Section]) -> dict[str, object]:
    """The same, not rounded."""
    return {
        "sections": {section.name: list(section.rows) for section in sections},
        "targets": [
            {"name": target.name, "value": target.value, "limit": target.limit, "met": target.met}
            for section in sections
            for target in section.targets
        ],
    }


def _target_row(target: Target) -> Row:
    unit = f" {target.unit}".rstrip()
    return {
        "target": target.name,
        "measured": _shown(target.value) + unit,
        "at most": f"{target.limit:g}{unit}",
        "": "met" if target.met else "MISSED",
    }


def _table(rows: Sequence[Row]) -> str:
    """Columns as the first row has them; numbers to the right."""
    columns = list(rows[0]) if rows else []
    lines = [columns, *([_shown(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    is_text = [isinstance(rows[0][column], str) for column in columns]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, is_text, strict=True)
        ).rstrip()
        for line in lines
    )


def _shown(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value >= 100 else f"{value:.2f}"
    return str(value)
