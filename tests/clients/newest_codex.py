"""Codex's newest release, tried and reported: ``python -m tests.clients.newest_codex``, or ``make newest-codex``.

The pinned release must pass; the newest one only warns, since what it changes is no fault of the change at hand. It is
installed into a folder of its own and runs the tests of the pinned one. The exit code is always 0: the last line tells
what came of it, and is kept as ``verdict.txt`` in that folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.clients.codex import CODEX, codex_in
from tests.clients.npm import run_npm

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "newest-codex"
TESTS = ROOT / "tests" / "clients" / "test_codex.py"
TEST_SECONDS = 240


def main(folder: Path = FOLDER, tests: Path = TESTS) -> int:
    """Install it into the folder, run the tests with it, and say what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        verdict = _try(_install(folder), tests, folder / "report.xml")
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody's build fails because of it
        verdict = f"WARNING: the newest Codex was NOT tried: {error}"
    (folder / "verdict.txt").write_text(verdict + "\n", encoding="utf-8")
    _print(verdict)
    return 0


def _install(folder: Path) -> Path:
    run_npm("install", "--prefix", str(folder), "@openai/codex@latest", cwd=folder)
    return codex_in(folder / "node_modules")


def _try(codex: Path, tests: Path, report: Path) -> str:
    """The verdict. Raises whatever kept the tests from running."""
    told = subprocess.run([str(codex), "--version"], capture_output=True, text=True, check=True, timeout=60)
    version = told.stdout.strip()
    _print(f"--- {version}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(tests)]
    environment = os.environ | {CODEX: str(codex)}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=TEST_SECONDS)
    # pytest's other codes are for tests that did not run.
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the tests of {version} did not run, pytest ended with {done.returncode}")
    cases = list(ET.parse(report).getroot().iter("testcase"))
    failed = [case.get("name", "") for case in cases if {"failure", "error"} & {child.tag for child in case}]
    if failed:
        return f"WARNING: {version} fails {len(failed)} of {len(cases)} tests: {', '.join(failed)}"
    return f"{version} passes all {len(cases)} tests"


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
