"""--responses-plugin and the options of the plugin, on the command line of the installed host."""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import fields
from types import ModuleType

import pytest
from vllm_mlx import cli

import responses_plugin
from responses_plugin import runtime
from responses_plugin.hooks import server_flag
from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import HostMismatch, SeamStatus
from responses_plugin.plugins import load_plugins
from responses_plugin.settings import Settings

pytestmark = pytest.mark.contract

OPTIONS = [
    "--responses-keepalive",
    "--responses-store-entries",
    "--responses-store-bytes",
    "--responses-max-body-bytes",
    "--responses-dialect",
    "--responses-trace-hooks",
]


@pytest.fixture
def command_line(monkeypatch):
    """Parse ``vllm-mlx ARGUMENTS`` with the flag attached to the real command line; the host is as before after it."""
    before = dict(vars(cli))
    patches = server_flag.attach_to_cli(cli)

    def parse(*arguments: str) -> argparse.Namespace:
        monkeypatch.setattr(sys, "argv", ["vllm-mlx", *arguments])
        return cli.create_parser().parse_args()

    yield parse
    patches.revert()
    assert dict(vars(cli)) == before
    responses_plugin.disable()
    runtime.installed_plugins.cache_clear()


@pytest.fixture
def served(monkeypatch):
    """What the host's own serve_command was called with, instead of serving."""
    calls: list[argparse.Namespace] = []

    def serve_command(args):
        calls.append(args)

    monkeypatch.setattr(cli, "serve_command", serve_command)
    return calls


@pytest.fixture
def third_party(monkeypatch):
    """Install a plugin for the test, besides the built-in ones."""

    def install(plugin: object) -> None:
        runtime.installed_plugins.cache_clear()
        monkeypatch.setattr(runtime, "load_plugins", lambda: load_plugins([("acme", plugin)], discover=False))

    return install


def test_serve_has_the_flag_and_all_options(command_line, capsys):
    """``serve --help`` shows them in a section of their own, each with a text."""
    with pytest.raises(SystemExit):
        command_line("serve", "--help")
    text = capsys.readouterr().out
    section = text[text.index("Responses API plugin:") :]
    for option in ["--responses-plugin", *OPTIONS]:
        assert option in section


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """All commands of a parser and, below them, theirs."""
    found = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                found |= {name: command} | {f"{name} {below}": it for below, it in commands(command).items()}
    return found


def test_no_other_command_has_the_flag(command_line, monkeypatch):
    """Of all the host's commands only ``serve`` mentions us, even when their help is asked for."""
    monkeypatch.setattr(sys, "argv", ["vllm-mlx", "serve", "--help"])
    parser = cli.create_parser()
    assert "responses" not in parser.format_help()
    assert {name for name, command in commands(parser).items() if "--responses" in command.format_help()} == {"serve"}
    assert len(commands(parser)) > 5


def test_values_reach_the_settings(command_line):
    """What the operator writes is what the plugin runs with."""
    args = command_line(
        "serve",
        "m",
        "--responses-plugin",
        "--responses-keepalive=2.5",
        "--responses-store-entries=5",
        "--responses-store-bytes=1000",
        "--responses-max-body-bytes=2000",
        "--responses-dialect=open-responses",
        "--responses-trace-hooks",
    )
    assert args.responses_plugin is True
    chosen = Settings.from_args(args)
    assert chosen == Settings(
        keepalive_seconds=2.5,
        max_stored_responses=5,
        max_stored_bytes=1000,
        max_body_bytes=2000,
        dialect="open-responses",
        trace_hooks=True,
    )
    unset = [field.name for field in fields(Settings) if getattr(chosen, field.name) == getattr(Settings(), field.name)]
    assert unset == [], "each setting has an option"
    assert Settings.from_args(command_line("serve", "m", "--responses-plugin")) == Settings()


@pytest.mark.parametrize(
    ("value", "message"),
    [("-1", "must be 0 or more, got -1"), ("inf", "must be 0 or more"), ("soon", "invalid float value: 'soon'")],
)
def test_a_value_that_cannot_be_meant_is_refused(command_line, capsys, value, message):
    """The host's own way of refusing: usage, the option's name, what was wrong, exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        command_line("serve", "m", "--responses-plugin", f"--responses-keepalive={value}")
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_without_the_flag_nothing_is_touched(served, command_line, monkeypatch):
    """The host serves as always, and not even the list of plugins is looked at."""
    monkeypatch.setattr(runtime, "load_plugins", lambda: pytest.fail("loaded without the flag"))
    runtime.installed_plugins.cache_clear()
    args = command_line("serve", "m")
    cli.serve_command(args)
    assert served == [args]
    assert not runtime.is_enabled()


def test_with_the_flag_the_plugin_is_enabled_before_the_host_serves(command_line, monkeypatch):
    """The host's own command runs on a host that is patched already."""
    # The real command starts a server: it gets no further than the first thing it does, importing uvicorn. The
    # server module imports it as well, so that one must be there before.
    importlib.import_module("vllm_mlx.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    args = command_line("serve", "m", "--responses-plugin", "--responses-keepalive=4")
    with pytest.raises(ImportError, match="uvicorn"):
        cli.serve_command(args)
    assert runtime.is_enabled()


def test_our_options_need_the_flag(command_line):
    """An option of ours on its own would do nothing; it ends the start with the reason."""
    args = command_line("serve", "m", "--responses-keepalive=3")
    with pytest.raises(SystemExit, match=r"--responses-keepalive=3 needs --responses-plugin"):
        cli.serve_command(args)


def test_a_third_party_adds_options(command_line, third_party, monkeypatch, served):
    """The hook gets the parser of ``serve``, and the values arrive with the host's arguments."""

    class Acme:
        @hookimpl
        def responses_add_options(self, parser):
            parser.add_argument("--acme-level", type=int, default=1)

    third_party(Acme())
    assert command_line("serve", "m", "--responses-plugin", "--acme-level=3").acme_level == 3
    assert not hasattr(command_line("serve", "m"), "acme_level")


def test_two_options_of_one_name_are_a_start_up_error(command_line, third_party, capsys):
    """A plugin that claims an option of the host's ends the start when the flag is there, and is told otherwise."""

    class Greedy:
        @hookimpl
        def responses_add_options(self, parser):
            parser.add_argument("--port")

    third_party(Greedy())
    with pytest.raises(SystemExit, match="Error: argument --port: conflicting option string"):
        command_line("serve", "m", "--responses-plugin")
    with pytest.raises(SystemExit):
        command_line("serve", "--help")
    captured = capsys.readouterr()
    assert "The options of the responses plugin are missing here: argument --port" in captured.err
    assert "--responses-plugin" in captured.out


def test_a_broken_plugin_is_a_start_up_error(command_line, third_party):
    """A misspelled hook ends the start with the message that names it, and no traceback."""

    class Misspelled:
        @hookimpl
        def responses_tool_kind(self):
            return []

    third_party(Misspelled())
    with pytest.raises(SystemExit, match="Error: plugin acme cannot be used: unknown hook 'responses_tool_kind'"):
        command_line("serve", "m", "--responses-plugin")


def test_a_host_that_does_not_fit_ends_the_start(command_line, monkeypatch):
    """The mismatch is printed as it is, without a traceback."""
    mismatch = HostMismatch("0.6.0", [])

    def enable(options):
        raise mismatch

    args = command_line("serve", "m", "--responses-plugin")
    monkeypatch.setattr(runtime, "enable", enable)
    with pytest.raises(SystemExit) as stopped:
        cli.serve_command(args)
    assert stopped.value.code == f"Error: {mismatch}"


def test_the_doctor_sees_the_command_line():
    """The flag's two places fit this host; one without ``serve`` is a misfit that names what is there."""
    states = server_flag.command_line_states(cli)
    assert [state.status for state in states] == [SeamStatus.TAKEN, SeamStatus.TAKEN]

    other = ModuleType("other_cli")
    other.create_parser = argparse.ArgumentParser
    other.serve_command = cli.serve_command
    parser, serve = server_flag.command_line_states(other)
    assert str(parser) == "does not fit: expected a sub-command serve, found no sub-commands"
    assert serve.status is SeamStatus.TAKEN


def test_serving_from_our_own_command_line(monkeypatch):
    """``python -m responses_plugin serve`` is the host's ``serve`` with the flag, whether it was written or not."""
    parsed = []

    def serve_command(args):
        parsed.append(args)

    monkeypatch.setattr(cli, "serve_command", serve_command)
    monkeypatch.setattr(runtime, "enable", lambda options: None)
    before = dict(vars(cli))
    for arguments in (["m", "--port", "9"], ["m", "--responses-plugin", "--port", "9"]):
        monkeypatch.setattr(sys, "argv", ["python -m responses_plugin"])
        server_flag.serve(arguments)
        monkeypatch.setattr(cli, "create_parser", before["create_parser"])
        monkeypatch.setattr(cli, "serve_command", serve_command)
    assert [(args.model, args.port, args.responses_plugin) for args in parsed] == [("m", 9, True)] * 2
