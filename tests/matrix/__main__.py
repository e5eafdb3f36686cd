"""The command: see :mod:`tests.matrix`."""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

from tests.matrix import table
from tests.matrix.releases import CACHE, SUPPORTED, Release, fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The steps that are tests, and which these are.
TESTS = {
    "contract": ("-m", "contract", "tests/host"),
    "acceptance": ("tests/host/test_tiny_model.py", "tests/host/test_tiny_text.py"),
}
STEPS = (*TESTS, "table")

#: What came of one step: its name, whether it is as it should be, and a line about it.
Outcome = tuple[str, bool, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps asked for; the exit code is 1 when one of them failed."""
    options = _parse(arguments)
    outcomes: list[Outcome] = []
    for step, selection in TESTS.items():
        if step in options.steps:
            outcomes += [_run_tests(step, release, selection) for release in fetch(options.releases, options.cache)]
    if "table" in options.steps:
        # All of them, whichever were asked for: there is one table.
        outcomes.append(_check_table(fetch(SUPPORTED, options.cache), write=options.write))
    width = max(len(step) for step, *_ in outcomes)
    for step, ok, line in outcomes:
        _print(f"{step:<{width}}  {'ok    ' if ok else 'FAILED'}  {line}")
    return 0 if all(ok for _, ok, _ in outcomes) else 1


def _run_tests(step: str, release: Release, selection: Sequence[str]) -> Outcome:
    name = f"{step} on {release.version}"
    _print(f"--- {name}")
    try:
        # Says so if the wrong release would be tested.
        problem = release.doctor()["problem"]
    except RuntimeError as error:
        problem = str(error)
    if problem:
        return name, False, problem
    with tempfile.TemporaryDirectory(prefix="responses-plugin-matrix-") as folder:
        report = Path(folder, "report.xml")
        started = time.monotonic()
        done = release.run("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *selection)
        seconds = time.monotonic() - started
        counts = _read_counts(report)
    line = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    ok = done.returncode == 0 and counts["passed"] == sum(counts.values()) > 0
    return name, ok, f"{line or 'no test was run'} in {seconds:.0f} s"


def _read_counts(report: Path) -> dict[str, int]:
    """How many tests came out how; nothing at all when pytest did not get as far as a report."""
    counts = dict.fromkeys(("passed", "failures", "errors", "skipped"), 0)
    if report.exists():
        for suite in ET.parse(report).getroot().iter("testsuite"):
            not_passed = {what: int(suite.get(what, 0)) for what in ("failures", "errors", "skipped")}
            for what, count in not_passed.items():
                counts[what] += count
            counts["passed"] += int(suite.get("tests", 0)) - sum(not_passed.values())
    return counts


def _check_table(releases: Sequence[Release], *, write: bool) -> Outcome:
    states: dict[str, dict[str, str]] = {}
    for release in releases:
        try:
            report = release.doctor()
        except RuntimeError as error:
            return "table", False, str(error)
        if report["problem"]:
            return "table", False, f"on {release.version}: {report['problem']}"
        states[release.version] = {seam["seam"]: seam["state"] for seam in report["seams"]}
    written = table.PAGE.read_text(encoding="utf-8")
    right = table.replaced(written, table.render(states))
    if write:
        table.PAGE.write_text(right, encoding="utf-8")
    elif right != written:
        lines = difflib.unified_diff(written.splitlines(), right.splitlines(), "as written", "as it is", lineterm="")
        _print("\n".join(lines))
        return "table", False, f"{table.PAGE.name} is not up to date: python -m tests.matrix table --write"
    # What serving needs fits, or doctor had told a problem.
    unmended = [version for version, seams in states.items() if "not mended" in seams.values()]
    if unmended:
        return "table", False, f"defects are not mended on {', '.join(unmended)}"
    return "table", True, f"{table.PAGE.name} says what doctor says on {len(releases)} releases"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix", description="Try the supported releases of vllm-mlx."
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(STEPS)}; all of them unless named")
    parser.add_argument(
        "--release", action="append", dest="releases", choices=SUPPORTED, help="run tests on this one; repeatable"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the releases are kept (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table instead of checking it")
    options = parser.parse_args(arguments)
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    options.steps = options.steps or STEPS
    options.releases = options.releases or SUPPORTED
    return options


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
