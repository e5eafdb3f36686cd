"""The benchmark command runs. How fast things are is no test: that depends on who else uses the machine.

How much is prefilled again is one: tokens are counted.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark import prefix
from tests.benchmark.report import Row, Section, Target, as_text, failed

ROOT = Path(__file__).parents[2]
MEASURED = ["batched text"]
TINY = (
    *("--tokens", "10", "20"),
    *("--images", "2", "--image-bytes", "2000"),
    *("--items", "7", "--prefill", "0.01", "--turns", "1"),
    *("--routes", *MEASURED),
)
#: Turns of the session, up to the developer message.
LENGTH = 8


def test_the_command_measures_everything() -> None:
    """Each section has its rows, and each target a value; on batched text nothing is prefilled twice."""
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
    assert all(math.isfinite(target["value"]) for target in result["targets"])


# The command measures the remaining one, and would have failed.
@pytest.mark.parametrize("name", [name for name in prefix.ROUTES if name not in MEASURED])
def test_no_turn_prefills_more_than_on_the_chat_path(name: str) -> None:
    """Over calls, an image and a developer message, with the answers that the session has."""
    sessions = prefix.hold_sessions(prefix.ROUTES[name], (prefix.PLUGIN, prefix.CHAT), LENGTH)
    assert [target for target in prefix.targets_of(name, sessions) if not target.met] == []
    assert [session.right for session in sessions.values()] == [LENGTH, LENGTH]


def test_only_what_is_counted_can_fail() -> None:
    """A target of time that was missed is shown, and that is all."""
    late, much = Target("late", 2.0, 1.0, "ms"), Target("much", 2.0, 1.0, counted=True)
    assert [failed([Section("things", "", [], [target])]) for target in (late, much)] == [False, True]


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
