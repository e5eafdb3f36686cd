"""The benchmark command runs. How fast things are is no test: that depends on who else uses the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmark.report import Row, Section, Target, as_text

ROOT = Path(__file__).parents[2]
TINY = (
    *("--tokens", "10", "20"),
    *("--images", "2", "--image-bytes", "2000"),
    *("--items", "7", "--prefill", "0.01", "--turns", "1"),
    *("--routes", "batched text"),
)


def test_the_command_measures_everything() -> None:
    """Each section has its rows, and each target a value."""
    command = [sys.executable, "-m", "tests.benchmark", *TINY, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert list(result["sections"]) == ["stream", "whole", "parsing", "first event", "blocking", "prefix"]
    for name, rows in result["sections"].items():
        assert rows, name
        assert all(value is not None for row in rows for value in row.values()), name
    sections_with_targets = {target["name"].partition(":")[0] for target in result["targets"]}
    assert sections_with_targets == {"stream", "parsing", "first event", "blocking", "prefix"}
    assert all(target["value"] > 0 for target in result["targets"])


def test_the_tables_are_readable() -> None:
    """Numbers stand under their column, and a target that was missed says so."""
    rows: list[Row] = [{"what": "short", "ms": 1234.5}, {"what": "a longer one", "ms": 0.126}]
    section = Section("things", "In milliseconds.", rows, [Target("a thing", 2.0, 1.5, "ms"), Target("one", 1.0, 1.5)])
    assert as_text([section]) == (
        "things\n"
        "In milliseconds.\n"
        "\n"
        "what            ms\n"
        "short         1234\n"
        "a longer one  0.13\n"
        "\n"
        "targets\n"
        "\n"
        "target   measured  at most\n"
        "a thing  2.00 ms   1.5 ms   MISSED\n"
        "one      1.00      1.5      met\n"
    )
