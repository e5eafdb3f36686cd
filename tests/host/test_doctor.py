"""``python -m responses_plugin doctor`` on the installed host, without a model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from vllm_mlx import server

from responses_plugin import __main__ as command_line
from responses_plugin import diagnosis, runtime
from responses_plugin.hooks.host import host_version
from responses_plugin.plugins import PluginError

pytestmark = pytest.mark.contract


@pytest.fixture(autouse=True)
def _fresh_plugins():
    """Each diagnosis loads the plugins anew."""
    runtime.installed_plugins.cache_clear()
    yield
    runtime.installed_plugins.cache_clear()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as an operator does."""
    return subprocess.run(
        [sys.executable, "-m", "responses_plugin", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_good_environment_passes():
    """Exit code 0; standard output is the JSON report alone, whatever the host logs while it is imported."""
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert report["host_version"] == host_version()
    states = {seam["seam"]: seam["state"] for seam in report["seams"]}
    assert states["POST /v1/responses"] == "taken"
    assert states["command line: parser"] == "taken"
    assert set(states.values()) <= {"taken", "not needed"}
    assert {"function", "custom"} <= set(report["tool_kinds"])
    assert "hooks.server_flag" in report["hooks"]["responses_add_options"]
    assert "INFO" not in done.stderr


def test_a_host_that_does_not_fit_fails(monkeypatch, capsys):
    """Exit code 1, the seam with what was expected and found, and the verdict; the host is as it was."""
    monkeypatch.delattr(server, "stream_chat_completion")
    routes = list(server.app.router.routes)
    assert command_line.main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "does not fit: expected vllm_mlx.server.stream_chat_completion" in text
    assert "found no such name" in text
    assert f"vllm-mlx {host_version()} does not fit the responses plugin" in text
    assert "POST /v1/responses" in text
    assert all(now is then for now, then in zip(server.app.router.routes, routes, strict=True))
    assert not runtime.is_enabled()


def test_a_missing_host_fails(monkeypatch, capsys):
    """Where vllm-mlx is not installed, that is what the report says."""

    def make_host(settings, plugins):
        raise ModuleNotFoundError("No module named 'vllm_mlx'", name="vllm_mlx")

    monkeypatch.setattr(runtime, "make_host", make_host)
    assert command_line.main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "vllm-mlx          not found" in text
    assert "vllm-mlx is not installed in this environment" in text


def test_plugins_that_cannot_be_used_fail(monkeypatch, capsys):
    """A start-up error of a plugin is the problem; there are no seams to show."""

    def load_plugins():
        raise PluginError("two plugins claim the tool type 'shell': a and b")

    monkeypatch.setattr(runtime, "load_plugins", load_plugins)
    assert command_line.main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["problem"] == "two plugins claim the tool type 'shell': a and b"
    assert report["seams"] == []


def test_a_command_line_that_cannot_take_the_flag_fails(monkeypatch, capsys):
    """Serving needs the flag: when only the command line does not fit, that too is a failure."""
    cli = runtime.make_host(runtime.Settings(), runtime.installed_plugins()).cli
    monkeypatch.setattr(cli, "serve_command", lambda options, args: None)
    assert command_line.main(["doctor"]) == 1
    assert "command line: serve  " in capsys.readouterr().out


def test_the_start_up_file_is_found_where_the_interpreter_looks(monkeypatch, tmp_path):
    """The report names the file that makes ``vllm-mlx serve`` know the flag, or that it is missing."""
    monkeypatch.setattr(diagnosis.site, "getsitepackages", lambda: [str(tmp_path)])
    monkeypatch.setattr(diagnosis.site, "ENABLE_USER_SITE", False)
    assert diagnosis.find_startup_file() == ""
    startup_file = tmp_path / diagnosis.STARTUP_FILE
    startup_file.touch()
    assert diagnosis.find_startup_file() == str(startup_file)


@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--help"]])
def test_help_needs_no_host(arguments, capsys):
    """The help texts name both commands and import nothing of the host."""
    with pytest.raises(SystemExit) as stopped:
        command_line.main(arguments)
    assert stopped.value.code == 0
    assert "doctor" in capsys.readouterr().out


def test_a_command_is_required(capsys):
    """Without one the usage is shown, with exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        command_line.main([])
    assert stopped.value.code == 2
    assert "COMMAND" in capsys.readouterr().err
