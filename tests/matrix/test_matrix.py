"""The command that tries the supported releases, without downloading any."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin.hooks.host import host_version
from tests.host import since
from tests.matrix import __main__ as command
from tests.matrix import releases, table
from tests.matrix.releases import SUPPORTED, Release, fetch

if TYPE_CHECKING:
    from collections.abc import Callable


def answering(*files: tuple[str, str]) -> Callable[..., Any]:
    """A stand-in for ``subprocess.run`` that leaves a wheel with these files where pip would."""

    def run(arguments: list[str], **options: Any) -> None:
        folder = Path(arguments[arguments.index("--dest") + 1])
        version = arguments[-1].removeprefix("vllm-mlx==")
        with zipfile.ZipFile(folder / f"vllm_mlx-{version}-py3-none-any.whl", "w") as wheel:
            for name, text in files:
                wheel.writestr(name, text)

    return run


# --- Releases --------------------------------------------------------------------------------------------------------


def test_a_release_is_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time it is there already, and nothing else is fetched."""
    monkeypatch.setattr(releases.subprocess, "run", answering(("vllm_mlx/__init__.py", "")))
    [first] = fetch(["1.2.3"], tmp_path)
    assert (first.folder / "vllm_mlx" / "__init__.py").is_file()
    monkeypatch.setattr(releases.subprocess, "run", None)
    assert fetch(["1.2.3"], tmp_path) == [first]


def test_a_broken_download_leaves_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be unpacked is not taken for unpacked the next time."""

    def run(arguments: list[str], **options: Any) -> None:
        (tmp_path / "vllm_mlx-1.2.3-py3-none-any.whl").write_bytes(b"half a wheel")

    monkeypatch.setattr(releases.subprocess, "run", run)
    with pytest.raises(zipfile.BadZipFile):
        fetch(["1.2.3"], tmp_path)
    assert not (tmp_path / "1.2.3").exists()


def test_a_release_runs_in_front_of_the_installed_one(tmp_path: Path) -> None:
    """Its packages are the ones that are imported, and its version is the one that doctor tells."""
    (tmp_path / "vllm_mlx").mkdir()
    (tmp_path / "vllm_mlx" / "__init__.py").write_text("print('this one')")
    done = Release("1.2.3", tmp_path).run("-c", "import vllm_mlx", capture_output=True)
    assert done.stdout == "this one\n"


def test_another_release_than_said_is_an_error(tmp_path: Path) -> None:
    """An empty folder would leave the installed one in its place, and its tests would pass."""
    assert host_version() != "1.2.3"
    with pytest.raises(RuntimeError, match=rf"holds {host_version()}, not 1\.2\.3"):
        Release("1.2.3", tmp_path).doctor()


# --- Steps -----------------------------------------------------------------------------------------------------------


class FakeRelease:
    """Runs one test file of ours in place of those asked for."""

    version = "1.2.3"

    def __init__(self, test: str, problem: str | None = None) -> None:
        self._test = test
        self._problem = problem

    def doctor(self) -> dict[str, Any]:
        return {"problem": self._problem}

    def run(self, *arguments: str) -> Any:
        options = [argument for argument in arguments if argument.startswith("--junitxml")]
        return Release("1.2.3", Path(self._test).parent).run(
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(Path(self._test).parent)),
            *options,
            self._test,
            capture_output=True,
        )


@pytest.mark.parametrize(
    ("text", "ok", "line"),
    [
        ("def test(): pass", True, "1 passed"),
        ("def test(): assert 0", False, "1 failures"),
        ("import pytest\ndef test(): pytest.skip()\ndef test_2(): pass", False, "1 passed, 1 skipped"),
        ("import no_such_module", False, "1 errors"),
        ("", False, "no test was run"),
    ],
    ids=["passed", "failed", "skipped", "broken", "empty"],
)
def test_a_step_is_green_only_if_every_test_ran_and_passed(tmp_path: Path, text: str, ok: bool, line: str) -> None:
    """Skipped tests and none at all are failures."""
    (tmp_path / "test_it.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    outcome = command._run_tests("contract", FakeRelease(str(tmp_path / "test_it.py")), ())
    assert outcome[:2] == ("contract on 1.2.3", ok)
    assert outcome[2].startswith(line)


def test_a_release_that_does_not_fit_is_not_tested() -> None:
    """What doctor says is the outcome."""
    outcome = command._run_tests("contract", FakeRelease("", problem="does not fit"), ())
    assert outcome == ("contract on 1.2.3", False, "does not fit")


def test_every_step_is_run_unless_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On all releases, and one failure is enough for the exit code."""
    ran: list[str] = []

    def run_tests(step: str, release: str, selection: Any) -> tuple[str, bool, str]:
        ran.append(f"{step} {release}")
        return step, release != "0.4.0", "so it was"

    monkeypatch.setattr(command, "fetch", lambda versions, cache: list(versions))
    monkeypatch.setattr(command, "_run_tests", run_tests)
    monkeypatch.setattr(command, "_check_table", lambda releases, *, write: ("table", True, "fine"))
    assert command.main([]) == 1
    assert ran == [f"{step} {release}" for step in ("contract", "acceptance") for release in SUPPORTED]
    assert capsys.readouterr().out.splitlines()[-1] == "table       ok      fine"
    ran.clear()
    assert command.main(["contract", "--release", "0.6.0"]) == 0
    assert ran == ["contract 0.6.0"]


def test_an_unknown_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A typo must not look like a pass."""
    with pytest.raises(SystemExit) as stopped:
        command.main(["contracts"])
    assert stopped.value.code == 2
    assert "no such step: contracts" in capsys.readouterr().err


# --- What older releases cannot do -----------------------------------------------------------------------------------


class Marked:
    """A test with these marks."""

    def __init__(self, *releases: str) -> None:
        self.releases = releases

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        assert name == "since"
        return [getattr(pytest.mark, name)(release).mark for release in self.releases]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("0.3.0", 1), ("0.4.0", 2), ("0.4.1", 2), ("0.5.0", 3), ("0.6.0", 4), ("0.10.0", 4)],
)
def test_a_test_runs_from_its_release_on(host: str, expected: int) -> None:
    """On older ones it is left out, and nothing else is; two marks are two conditions."""
    tests = [Marked(), Marked("0.4.0"), Marked("0.5.0"), Marked("0.4.0", "0.6.0")]
    assert since.split(tests, host) == (tests[:expected], tests[expected:])


@pytest.mark.parametrize("release", ["0.5", "0.3.0", "1.0.0"])
def test_a_mark_must_name_a_release(release: str) -> None:
    """One that is supported and not the oldest: otherwise the test would be left out everywhere, or nowhere."""
    with pytest.raises(ValueError, match=release):
        since.split([Marked(release)], "0.6.0")


# --- The table -------------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_a_seam_and_a_column_a_release() -> None:
    """In the order of the newest release; what only older ones have stands where it stood there."""
    states = {
        "1.0": {"a": "taken", "old": "taken", "b": "taken"},
        "2.0": {"a": "taken", "b": "not needed", "new": "taken"},
    }
    assert table.render(states).splitlines() == [
        "| seam | 1.0 | 2.0 |",
        "| --- | --- | --- |",
        "| a | taken | taken |",
        "| old | taken | - |",
        "| b | taken | not needed |",
        "| new | - | taken |",
    ]


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    """And replacing it again changes nothing."""
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    once = table.replaced(page, "| new |")
    assert once == f"before\n{table.BEGIN}\n\n| new |\n\n{table.END}\nafter\n"
    assert table.replaced(once, "| new |") == once


@pytest.mark.parametrize("page", ["", table.BEGIN, table.END + table.BEGIN, (table.BEGIN + table.END) * 2])
def test_a_page_without_its_marks_is_an_error(page: str) -> None:
    """Nothing is written where it cannot be found again."""
    with pytest.raises(ValueError, match="must hold"):
        table.replaced(page, "")


def test_a_table_that_is_out_of_date_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checking fails with the difference, writing mends it, and then checking passes."""
    page = tmp_path / "page.md"
    page.write_text(f"{table.BEGIN}\n\n| old |\n\n{table.END}\n")
    monkeypatch.setattr(table, "PAGE", page)
    report = {"problem": None, "seams": [{"seam": "a", "state": "taken"}]}
    monkeypatch.setattr(Release, "doctor", lambda self: report)
    releases = [Release("1.0", tmp_path)]
    assert command._check_table(releases, write=False)[:2] == ("table", False)
    assert "+| a | taken |" in capsys.readouterr().out
    assert command._check_table(releases, write=True)[:2] == ("table", True)
    assert command._check_table(releases, write=False)[:2] == ("table", True)


def test_a_defect_in_the_table_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release cannot be called supported while one of its defects is not mended, although it would serve."""
    page = tmp_path / "page.md"
    page.write_text(f"{table.BEGIN}\n\n{table.END}\n")
    monkeypatch.setattr(table, "PAGE", page)
    report = {"problem": None, "seams": [{"seam": "a", "state": "not mended"}]}
    monkeypatch.setattr(Release, "doctor", lambda self: report)
    outcome = command._check_table([Release("1.0", tmp_path)], write=True)
    assert outcome == ("table", False, "defects are not mended on 1.0")


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("problem", ["vllm-mlx 1.0 does not fit", RuntimeError("doctor failed on 1.0")])
def test_a_release_that_cannot_be_asked_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: bool, problem: str | RuntimeError
) -> None:
    """Its problem is the outcome, beside those of the other steps, and the page stays as it is."""

    def doctor(self: Release) -> dict[str, Any]:
        if isinstance(problem, RuntimeError):
            raise problem
        return {"problem": problem, "seams": []}

    page = tmp_path / "page.md"
    page.write_text(f"{table.BEGIN}\n\n| old |\n\n{table.END}\n")
    monkeypatch.setattr(table, "PAGE", page)
    monkeypatch.setattr(Release, "doctor", doctor)
    step, ok, line = command._check_table([Release("1.0", tmp_path)], write=write)
    assert (step, ok) == ("table", False)
    assert str(problem) in line
    assert "| old |" in page.read_text()


def test_the_page_tells_the_truth_about_the_installed_release() -> None:
    """The other releases are checked by the command itself."""
    page = table.PAGE.read_text(encoding="utf-8")
    written = page[page.index(table.BEGIN) : page.index(table.END)]
    rows = [row.strip("| ").split(" | ") for row in written.splitlines() if row.startswith("|")]
    column = rows[0].index(host_version())
    told = {row[0]: row[column] for row in rows[2:] if row[column] != table.ABSENT}
    assert told == {seam["seam"]: seam["state"] for seam in Release(host_version(), Path()).doctor()["seams"]}
