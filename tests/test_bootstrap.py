"""The start-up file's code: nothing for other programs, one trigger for vllm-mlx, and never an error for anyone.

The host is played by a package of a few lines here, so that each way of starting it takes milliseconds.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin import bootstrap

ROOT = Path(__file__).parents[1]
STARTUP_FILE = ROOT / "responses_plugin" / "startup" / "vllm_mlx_responses.pth"


@pytest.mark.parametrize(
    ("command_line", "entry_point"),
    [
        (["python", "/env/bin/vllm-mlx", "serve", "m"], "vllm-mlx"),
        (["python3.13", "-X", "dev", "-u", "/env/bin/vllm-mlx"], "vllm-mlx"),
        (["python.exe", "C:\\env\\Scripts\\vllm-mlx.exe", "serve"], "vllm-mlx"),
        (["python", "-m", "vllm_mlx.cli", "serve"], "vllm_mlx.cli"),
        (["python", "-m", "vllm_mlx.server"], "vllm_mlx.server"),
        (["python", "-mvllm_mlx.server"], "vllm_mlx.server"),
        (["python", "-Im", "vllm_mlx.cli"], "vllm_mlx.cli"),
        (["python", "-W", "error", "-Xdev", "-OO", "-m", "vllm_mlx.cli"], "vllm_mlx.cli"),
        (["python", "-Werror", "-m", "vllm_mlx.cli"], "vllm_mlx.cli"),
        (["python", "--check-hash-based-pycs", "always", "-m", "vllm_mlx.cli"], "vllm_mlx.cli"),
        # Something else, however much it looks like the host.
        ([], None),
        ([""], None),
        (["python"], None),
        (["python", "-m"], None),
        (["python", "-"], None),
        (["python", "script.py", "/env/bin/vllm-mlx"], None),
        (["python", "-c", "import vllm_mlx.cli", "-m", "vllm_mlx.cli"], None),
        (["python", "-Wm", "vllm_mlx.cli"], None),
        (["python", "-X", "-m", "vllm_mlx.cli"], None),
        (["python", "-m", "vllm_mlx"], None),
        (["python", "-m", "vllm_mlx.benchmark"], None),
        (["python", "-m", "responses_plugin", "serve"], None),
        (["python", "/env/bin/vllm-mlx-chat"], None),
        (["python", "/env/bin/vllm-mlx/other.py"], None),
    ],
)
def test_only_the_hosts_own_command_lines_are_recognised(command_line, entry_point):
    """The interpreter's options are read as the interpreter reads them, so that no other program is mistaken."""
    assert bootstrap.host_entry_point(command_line) == entry_point


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["-m", "-c", "-W", "--", "-", "vllm_mlx.cli"]))))
def test_no_command_line_is_an_error(command_line):
    """Whatever a program was started with, looking at it raises nothing and answers one of four things."""
    assert bootstrap.host_entry_point(command_line) in {None, "vllm-mlx", "vllm_mlx.cli", "vllm_mlx.server"}


# --- Whole processes -----------------------------------------------------------------------------------------------


HOST_CLI = """
import argparse
import sys

print("imported", __name__)

def create_parser():
    parser = argparse.ArgumentParser(prog="vllm-mlx")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("serve").add_argument("model")
    commands.add_parser("bench").add_argument("model")
    return parser

def serve_command(args):
    print("serving", args.model)

def main():
    args = create_parser().parse_args()
    print("parse_args restored", argparse.ArgumentParser.parse_args.__module__ == "argparse")
    print("loader restored", type(__spec__.loader).__module__.startswith(("_frozen_importlib", "importlib")))
    print("finder gone", not any("responses_plugin" in type(finder).__module__ for finder in sys.meta_path))
    serve_command(args)

if __name__ == "__main__":
    main()
"""

HOST_SERVER = """
import argparse

# Something that a host may import while it starts, and that parses for itself.
assert argparse.ArgumentParser().parse_args([]) == argparse.Namespace()

def create_parser():
    parser = argparse.ArgumentParser(prog="server")
    parser.add_argument("--model")
    return parser

def main():
    args = create_parser().parse_args()
    print("parse_args restored", argparse.ArgumentParser.parse_args.__module__ == "argparse")
    print("serving", args.model)

if __name__ == "__main__":
    main()
"""

CONSOLE_SCRIPT = """
import sys
from vllm_mlx.cli import main
sys.exit(main())
"""


@pytest.fixture
def environment(tmp_path):
    """A folder with a host of a few lines, and one that the interpreter treats as site-packages."""
    host = tmp_path / "host" / "vllm_mlx"
    host.mkdir(parents=True)
    (host / "__init__.py").write_text("__version__ = '0.0.0'\n")
    (host / "cli.py").write_text(HOST_CLI)
    (host / "server.py").write_text(HOST_SERVER)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vllm-mlx").write_text(CONSOLE_SCRIPT)
    return tmp_path


def run(environment: Path, *arguments: str, startup_code: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the start-up file's line executed where ``site`` would execute it."""
    # sitecustomize is imported by site right after the start-up files; the real thing is in test_packaging.py. Twice,
    # because site does so in a virtual environment.
    startup = environment / "startup"
    startup.mkdir(exist_ok=True)
    line = STARTUP_FILE.read_text() if startup_code is None else startup_code
    (startup / "sitecustomize.py").write_text(f"exec({line!r})\nexec({line!r})\n")
    path = [str(startup), str(environment / "host"), str(ROOT)]
    return subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": ":".join(path), "PATH": "", "PYTHONWARNINGS": "error"},
        cwd=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def start(environment: Path, how: str) -> list[str]:
    return [str(environment / "bin" / "vllm-mlx")] if how == "vllm-mlx" else ["-m", how]


@pytest.mark.parametrize("how", ["vllm-mlx", "vllm_mlx.cli"])
def test_the_command_line_gains_the_flag_and_nothing_else(environment, how):
    """``serve --help`` shows the flag, ``bench --help`` does not, and every trace of waiting for it is gone."""
    done = run(environment, *start(environment, how), "serve", "m")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"imported {'__main__' if how == 'vllm_mlx.cli' else 'vllm_mlx.cli'}",
        "parse_args restored True",
        "loader restored True",
        "finder gone True",
        "serving m",
    ]
    assert done.stderr == ""
    assert "--responses-plugin" in run(environment, *start(environment, how), "serve", "--help").stdout
    assert "--responses" not in run(environment, *start(environment, how), "bench", "--help").stdout
    assert "--responses" not in run(environment, *start(environment, how), "--help").stdout


def test_the_server_module_gains_the_flag(environment):
    """``python -m vllm_mlx.server`` has it too, whatever else parses a command line while the host starts."""
    done = run(environment, "-m", "vllm_mlx.server", "--model", "m")
    assert done.stdout.splitlines() == ["parse_args restored True", "serving m"]
    assert "--responses-plugin" in run(environment, "-m", "vllm_mlx.server", "--help").stdout


@pytest.mark.parametrize("how", ["vllm-mlx", "vllm_mlx.cli"])
def test_a_host_whose_command_line_does_not_fit_serves_as_before(environment, how):
    """Without the flag such a host is left alone; with it the process ends and says what was expected and found."""
    cli = environment / "host" / "vllm_mlx" / "cli.py"
    cli.write_text(HOST_CLI.replace('add_parser("serve")', 'add_parser("run")'))
    plain = run(environment, *start(environment, how), "run", "m")
    assert plain.returncode == 0, plain.stderr
    assert "serving m" in plain.stdout
    asked = run(environment, *start(environment, how), "run", "m", "--responses-plugin")
    assert asked.returncode == 1
    assert "command line: parser: expected a sub-command serve, found the sub-commands run, bench" in asked.stderr
    assert "Traceback" not in asked.stderr


def test_a_changed_signature_is_named(environment):
    """A ``serve_command`` with other parameters is not called with the wrong ones; the error names it."""
    cli = environment / "host" / "vllm_mlx" / "cli.py"
    cli.write_text(HOST_CLI.replace("def serve_command(args)", "def serve_command(options, args)"))
    asked = run(environment, *start(environment, "vllm-mlx"), "serve", "m", "--responses-plugin")
    assert asked.returncode == 1
    assert "expected vllm_mlx.cli.serve_command(args), found vllm_mlx.cli.serve_command(options, args)" in asked.stderr


@pytest.mark.parametrize("how", ["vllm-mlx", "vllm_mlx.cli", "vllm_mlx.server"])
def test_a_defect_of_ours_does_not_keep_the_host_from_starting(environment, how):
    """When our own code cannot be imported the host runs without the flag, and says so in one line."""
    broken = environment / "startup" / "pluggy.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('pluggy is broken here')")
    arguments = ["--model", "m"] if how == "vllm_mlx.server" else ["serve", "m"]
    done = run(environment, *start(environment, how), *arguments)
    assert done.returncode == 0, done.stderr
    assert "serving m" in done.stdout
    assert done.stderr == (
        "vllm-mlx-responses: --responses-plugin is not available: ImportError: pluggy is broken here\n"
    )


@pytest.mark.parametrize("arguments", [["-c", "print('hello')"], ["-c", "print('hello')", "vllm"], ["-m", "this"]])
def test_other_programs_do_not_notice(environment, arguments):
    """Another Python program prints what it prints, and none of our modules but the one that looks is ever imported."""
    report = "; import sys; print(sorted(m for m in sys.modules if m.startswith('responses_plugin')))"
    arguments = [argument + report if argument.startswith("print") else argument for argument in arguments]
    done = run(environment, *arguments)
    assert done.returncode == 0
    assert done.stderr == ""
    if "hello" in done.stdout:
        looked = "vllm" in arguments
        assert done.stdout.splitlines()[1] == str(["responses_plugin", "responses_plugin.bootstrap"] if looked else [])


def test_looking_imports_nothing(environment):
    """The module that looks, and the package around it, import nothing that the interpreter has not loaded already.

    From Python 3.15 on they are imported in every process, so what they import is what every process pays for.
    """
    code = (
        "import sys; before = set(sys.modules); import responses_plugin.bootstrap as b; b.arm(); "
        "print(sorted(set(sys.modules) - before))"
    )
    done = run(environment, "-c", code, startup_code="")
    assert done.stdout.strip() == "['responses_plugin', 'responses_plugin.bootstrap']"
