"""The job that tries the newest Codex: it fails nobody's build, and never lets a job that was not done look done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients import newest_codex
from tests.clients.codex import CODEX, find_codex

if TYPE_CHECKING:
    from pathlib import Path

PASSES = f"import os\ndef test_this(): assert os.environ[{CODEX!r}].endswith('codex')\n"
FAILS = "def test_that(): assert False\n"


@pytest.fixture
def npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An npm that installs a Codex which knows its version, and nothing else."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    vendored = "node_modules/@openai/codex-made-up/vendor/machine/bin"
    program = bin_folder / "npm"
    program.write_text(
        f"#!/bin/sh\nmkdir -p {vendored} && printf '#!/bin/sh\\necho codex-cli 9.9.9\\n' > {vendored}/codex"
        f" && chmod +x {vendored}/codex\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    return program


@pytest.mark.usefixtures("npm")
@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        (PASSES, "codex-cli 9.9.9 passes all 1 tests"),
        (PASSES + FAILS, "WARNING: codex-cli 9.9.9 fails 1 of 2 tests: test_that"),
        ("", "WARNING: the newest Codex was NOT tried: the tests of codex-cli 9.9.9 did not run, pytest ended with 5"),
    ],
    ids=["passes", "fails", "no tests"],
)
def test_the_verdict(tests: str, verdict: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It names the release and what fails; tests that did not run are none that passed."""
    file = tmp_path / "test_it.py"
    file.write_text(tests)
    assert newest_codex.main(tmp_path / "codex", file) == 0
    assert capfd.readouterr().out.splitlines()[-1] == verdict
    assert (tmp_path / "codex" / "verdict.txt").read_text() == verdict + "\n"


def test_what_cannot_be_installed_was_not_tried(npm: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The warning has what npm said."""
    npm.write_text("#!/bin/sh\necho 'npm error code E404' >&2\nexit 1\n")
    assert newest_codex.main(tmp_path / "codex", newest_codex.TESTS) == 0
    out = capfd.readouterr().out
    assert out.startswith("WARNING: the newest Codex was NOT tried: `npm install` in ")
    assert "npm error code E404" in out


def test_the_tests_run_the_codex_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not the pinned one."""
    monkeypatch.setenv(CODEX, str(tmp_path / "codex"))
    assert find_codex() == tmp_path / "codex"
