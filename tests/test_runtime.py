"""enable() and disable(): once, as a whole, and with one line that says what happened."""

from __future__ import annotations

import logging
from argparse import Namespace
from types import ModuleType, SimpleNamespace

import pytest

import responses_plugin
from responses_plugin import runtime
from responses_plugin.patching import HostMismatch, SeamState, SeamStatus, SymbolPatch
from responses_plugin.settings import Settings


class Plugins:
    """Stands in for the plugin manager's facade."""

    def __init__(self, patches):
        self.patches = patches
        self.hosts = []
        self.traces = []

    def host_patches(self, host):
        self.hosts.append(host)
        return self.patches(host)

    def names(self):
        return ["kinds", "hooks.chat", "acme_tools"]

    def trace(self, write):
        self.traces.append(write)


@pytest.fixture
def module():
    host = ModuleType("stand_in.server")
    host.answer = lambda request: "host"
    return host


def answer_patch(module, name="answer", **more):
    return SymbolPatch(
        seam=f"the {name}",
        owner=module,
        name=name,
        parameters=("request",),
        replace=lambda original: lambda request: f"plugin over {original(request)}",
        remove_when="never",
        **more,
    )


@pytest.fixture
def plugins(module, monkeypatch):
    """A process with a stand-in host and plugins, not enabled before and after the test."""
    loaded = Plugins(lambda host: [answer_patch(module)])

    def installed_plugins():
        return loaded

    installed_plugins.cache_clear = lambda: None
    monkeypatch.setattr(runtime, "installed_plugins", installed_plugins)
    monkeypatch.setattr(
        runtime,
        "make_host",
        lambda settings, plugins: SimpleNamespace(version="0.9.0", settings=settings, plugins=plugins),
    )
    monkeypatch.setattr(runtime, "_enabled", None)
    yield loaded
    responses_plugin.disable()


def test_enable_patches_and_disable_restores(plugins, module):
    """Between the two the host answers through the plugin; afterwards it is the same object as before."""
    original = module.answer
    responses_plugin.enable()
    assert runtime.is_enabled()
    assert module.answer("?") == "plugin over host"
    responses_plugin.disable()
    assert not runtime.is_enabled()
    assert module.answer is original


def test_both_are_idempotent(plugins, module):
    """A second call of either changes nothing, and the pair can be repeated."""
    responses_plugin.disable()
    responses_plugin.enable()
    responses_plugin.enable()
    assert module.answer("?") == "plugin over host"
    assert len(plugins.hosts) == 1
    responses_plugin.disable()
    responses_plugin.disable()
    assert module.answer("?") == "host"
    responses_plugin.enable()
    assert module.answer("?") == "plugin over host"


@pytest.mark.parametrize(
    ("options", "keepalive"),
    [(None, 10.0), (Settings(keepalive_seconds=1), 1), (Namespace(responses_keepalive_seconds=3.0), 3.0)],
)
def test_settings_reach_the_patches(plugins, options, keepalive):
    """Settings, or a parsed command line with them, are what the plugins' patches are made with."""
    responses_plugin.enable(options)
    assert plugins.hosts[0].settings.keepalive_seconds == keepalive
    assert plugins.hosts[0].plugins is plugins


def test_other_settings_while_enabled_are_not_ignored_in_silence(plugins, caplog):
    """A second enable() cannot change the settings, and says so."""
    responses_plugin.enable(Settings(keepalive_seconds=1))
    responses_plugin.enable(Settings(keepalive_seconds=1))
    assert "already enabled" not in caplog.text
    responses_plugin.enable(Settings(keepalive_seconds=2))
    assert "already enabled with other settings, which stay: Settings(keepalive_seconds=1" in caplog.text


def test_a_host_that_does_not_fit_leaves_us_disabled(plugins, module):
    """After the error nothing is patched, and enabling again is tried again."""
    plugins.patches = lambda host: [answer_patch(module), answer_patch(module, "question")]
    with pytest.raises(HostMismatch, match=r"vllm-mlx 0\.9\.0"):
        responses_plugin.enable()
    assert not runtime.is_enabled()
    assert module.answer("?") == "host"
    plugins.patches = lambda host: [answer_patch(module)]
    responses_plugin.enable()
    assert module.answer("?") == "plugin over host"


def test_the_start_is_told_in_one_line(plugins, module, caplog):
    """One log record names the versions, the seams taken, those not needed and why, and the plugins."""
    plugins.patches = lambda host: [
        answer_patch(module),
        answer_patch(module, not_needed=lambda: "host does that itself"),
    ]
    with caplog.at_level(logging.INFO, "responses_plugin"):
        responses_plugin.enable()
        responses_plugin.enable()
    (record,) = caplog.records
    assert record.getMessage() == (
        f"responses plugin {responses_plugin.__version__} on vllm-mlx 0.9.0: took the answer; "
        "not needed: the answer (host does that itself); plugins: 2 built in, acme_tools"
    )


def test_the_line_says_so_when_nothing_was_taken():
    """A host that needs no patch at all is told apart from a line cut short."""
    states = [SeamState(seam="a", status=SeamStatus.NOT_NEEDED, reason="built in")]
    line = runtime.describe_start("1.0", states, [])
    assert "took nothing; not needed: a (built in); plugins: 0 built in" in line


@pytest.mark.parametrize("trace", [True, False])
def test_hooks_are_traced_on_request(plugins, caplog, trace):
    """The trace goes to a logger of its own, so that it can be filtered."""
    responses_plugin.enable(Settings(trace_hooks=trace))
    assert len(plugins.traces) == trace
    with caplog.at_level(logging.INFO, "responses_plugin.trace"):
        for write in plugins.traces:
            write("responses_completed [hook]")
    assert [record.name for record in caplog.records] == ["responses_plugin.trace"] * trace


def test_a_defect_that_cannot_be_mended_is_one_warning(plugins, module, caplog):
    """The server starts; the log names the seams that do not fit, all of them at once, and what they mean."""
    plugins.patches = lambda host: [
        answer_patch(module),
        answer_patch(module, "question", defect="questions get lost"),
        answer_patch(module, "doubt", defect="questions get lost"),
        answer_patch(module, "reply", defect="replies get lost"),
    ]
    with caplog.at_level(logging.WARNING):
        responses_plugin.enable()
    assert module.answer("?") == "plugin over host"
    [record] = caplog.records
    message = record.getMessage()
    assert message.startswith("vllm-mlx 0.9.0 has changed")
    assert message.count("questions get lost") == 1
    assert "replies get lost" in message
    for name in ("question", "doubt", "reply"):
        assert f"the {name}: not mended: expected stand_in.server.{name}(request), found no such name" in message


def test_a_start_on_a_host_that_fits_is_no_warning(plugins, caplog):
    """Nor is one that needs less."""
    with caplog.at_level(logging.WARNING):
        responses_plugin.enable()
    assert not caplog.records
