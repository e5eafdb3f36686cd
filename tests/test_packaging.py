"""The wheel, built and installed as a user installs it, beside the host of this environment."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import responses_plugin

ROOT = Path(__file__).parents[1]
STARTUP_FILES = ["vllm_mlx_responses.pth", "vllm_mlx_responses.start"]


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=300, cwd=cwd
    )


def pip(*arguments: object) -> None:
    done = run(sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the sources, so that no earlier build leaks into it and nothing is left behind."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ["responses_plugin", "hooks"]:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ["pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(ROOT / name, source)
    pip("wheel", source, "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    (built,) = folder.glob("*.whl")
    return built


class Environment:
    """A virtual environment that has the wheel, and borrows everything else from the one that runs the tests."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, symlinks=True)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site_packages = folder / "lib" / version / "site-packages"
        # A path line, not system_site_packages: the start-up files over there are not read.
        borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
        (self.site_packages / "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n")
        # The console script that installing the host puts here.
        script = self.bin / "vllm-mlx"
        script.write_text(f"#!{self.python}\nimport sys\nfrom vllm_mlx.cli import main\nsys.exit(main())\n")
        script.chmod(0o755)
        self.files_before = self.files()
        self.install(wheel)

    def install(self, wheel: Path) -> None:
        pip("--python", self.python, "install", "--no-deps", "--no-index", wheel)

    def uninstall(self) -> None:
        pip("--python", self.python, "uninstall", "--yes", "vllm-mlx-responses")

    def files(self) -> set[Path]:
        return {path for path in self.site_packages.rglob("*") if "__pycache__" not in path.parts}

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        """Run a command of this environment, away from the sources."""
        program, *arguments = command
        return run(self.bin / str(program), *arguments, cwd=self.site_packages.parent)


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheel):
    return Environment(tmp_path_factory.mktemp("environment"), wheel)


def test_the_wheel_holds_what_an_installation_needs(wheel):
    """Start-up files at the top, hooks/ as responses_plugin.hooks and nowhere else, every package, the type marker."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (top_level,) = [archive.read(name).decode() for name in names if name.endswith("top_level.txt")]
    assert set(STARTUP_FILES) <= names
    assert {"responses_plugin/py.typed", "responses_plugin/hooks/server_flag.py"} <= names
    assert {name.partition("/")[0] for name in names} - set(STARTUP_FILES) == {
        "responses_plugin",
        f"vllm_mlx_responses-{responses_plugin.__version__}.dist-info",
    }
    assert top_level.split() == ["responses_plugin"]
    sources = {
        f"responses_plugin/{path.relative_to(ROOT / 'responses_plugin')}"
        for path in (ROOT / "responses_plugin").rglob("*.py")
    }
    assert sources <= names


def test_the_metadata_says_what_it_needs(wheel):
    """The version comes from the package, and no requirement has an upper bound."""
    with zipfile.ZipFile(wheel) as archive:
        (text,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    metadata = Parser().parsestr(text)
    assert metadata["Version"] == responses_plugin.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    requirements = metadata.get_all("Requires-Dist")
    assert "vllm-mlx>=0.3.0" in requirements
    assert not [requirement for requirement in requirements if "<" in requirement or "==" in requirement.split(";")[0]]


def test_serve_shows_the_flag_and_no_other_command_does(environment):
    """A plain installation is enough for ``vllm-mlx serve --help``; the other commands know nothing of us."""
    done = environment.run("vllm-mlx", "serve", "--help")
    assert done.returncode == 0, done.stderr
    assert "--responses-plugin" in done.stdout
    assert "--responses-keepalive SECONDS" in done.stdout
    assert done.stderr == ""
    for command in (["bench"], []):
        done = environment.run("vllm-mlx", *command, "--help")
        assert done.returncode == 0, done.stderr
        assert "--responses" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-I", "-m", "vllm_mlx.cli", "serve"],
        ["python", "-m", "vllm_mlx.server"],
        ["python", "-m", "responses_plugin", "serve"],
    ],
    ids=" ".join,
)
def test_every_way_of_serving_shows_the_flag(environment, command):
    """The host's modules run with -m have the flag too, and our own command has it without the start-up file."""
    done = environment.run(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert "--responses-plugin" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["vllm-mlx", "serve", "./no-such-model"],
        ["python", "-m", "vllm_mlx.cli", "serve", "./no-such-model"],
        ["python", "-m", "vllm_mlx.server", "--model", "./no-such-model"],
    ],
    ids=lambda command: " ".join(command[:-1]),
)
def test_the_flag_enables_the_plugin_before_the_model_is_loaded(environment, command):
    """The start-up line comes first, then the host goes its way: here to a model that does not exist."""
    done = environment.run(*command, "--responses-plugin", "--offline" if "serve" in command else "--host=127.0.0.1")
    assert done.returncode != 0
    assert done.stderr.count("responses plugin ") == 1
    _, taken, after = done.stderr.partition(": took ")
    assert taken, done.stderr
    assert "POST /v1/responses" in after.partition("not needed")[0]
    assert "no-such-model" in after


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the .start file cannot look before it imports")
def test_other_programs_import_nothing_more(environment):
    """A program that is not vllm-mlx pays for reading one line: the same modules are loaded with the file as without.

    Timing it here would measure the machine; on a quiet one it was 0.2 ms of a start of 10 ms.
    """

    def loaded() -> str:
        done = environment.run("python", "-c", "import sys; print(sorted(sys.modules))")
        assert done.returncode == 0, done.stderr
        return done.stdout

    startup_file = environment.site_packages / STARTUP_FILES[0]
    aside = startup_file.with_suffix(".aside")
    with_it = loaded()
    startup_file.rename(aside)
    without_it = loaded()
    aside.rename(startup_file)
    assert with_it == without_it


def test_an_installation_leaves_nothing_behind(environment, wheel):
    """Uninstalling removes the start-up files with the package, and Python starts without a complaint."""
    environment.uninstall()
    assert environment.files() == environment.files_before
    done = environment.run("python", "-c", "pass")
    assert (done.returncode, done.stderr) == (0, "")
    done = environment.run("vllm-mlx", "serve", "m", "--responses-plugin")
    assert done.returncode == 2
    assert "unrecognized arguments: --responses-plugin" in done.stderr
    environment.install(wheel)
