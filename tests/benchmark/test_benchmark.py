"""The benchmark command runs. How fast things are is no test: that depends on who else uses the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TINY = (
    *("--tokens", "10", "20"),
    *("--images", "2", "--image-bytes", "2000"),
    *("--items", "7", "--prefill", "0.01", "--turns", "1"),
)


def run(*arguments: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "tests.benchmark", *TINY, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_benchmark_measures_everything() -> None:
    """Each section has its rows, and each target a value."""
    result: dict[str, Any] = json.loads(run("--json"))
    assert list(result["sections"]) == ["stream", "whole", "parsing", "first event", "blocking"]
    for name, rows in result["sections"].items():
        assert rows, name
        assert all(value is not None for row in rows for value in row.values()), name
    assert {target["name"].partition(":")[0] for target in result["targets"]} == {
        *("stream", "parsing", "first event", "blocking")
    }
    assert all(target["value"] > 0 for target in result["targets"])


def test_the_benchmark_prints_tables() -> None:
    """What was asked for, and the targets, for people to read."""
    text = run("--only", "parsing")
    assert text.startswith("parsing\n")
    assert "json.loads" in text
    assert "targets\n" in text
