"""What :func:`responses_plugin.enable` and :func:`responses_plugin.disable` do, and what ``doctor`` asks.

One process serves one host, so whether it is enabled is state of this module.
"""

from __future__ import annotations

import functools
import logging
from argparse import Namespace
from typing import TYPE_CHECKING

import responses_plugin
from responses_plugin.patching import PatchSet, SeamStatus, unmended_defects
from responses_plugin.plugins import BUILTIN_PLUGINS, Plugins, load_plugins
from responses_plugin.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from responses_plugin.hooks.host import Host
    from responses_plugin.lowering.template import TemplateRules
    from responses_plugin.patching import SeamState

logger = logging.getLogger("responses_plugin")

_enabled: tuple[Settings, PatchSet] | None = None


def enable(options: Settings | Namespace | None = None) -> None:
    """See :func:`responses_plugin.enable`."""
    global _enabled  # noqa: PLW0603 - see above
    settings = options if isinstance(options, Settings) else Settings.from_args(options or Namespace())
    if _enabled is not None:
        if settings != _enabled[0]:
            logger.warning("already enabled with other settings, which stay: %s", _enabled[0])
        return
    plugins = installed_plugins()
    patches = collect_patches(make_host(settings, plugins))
    patches.apply()
    _enabled = settings, patches
    if settings.trace_hooks:
        plugins.trace(logging.getLogger("responses_plugin.trace").info)
    logger.info("%s", describe_start(patches.host_version, patches.states(), plugins.names()))
    if unmended := describe_unmended(patches.host_version, patches.states()):
        logger.warning("%s", unmended)


def disable() -> None:
    """See :func:`responses_plugin.disable`."""
    global _enabled  # noqa: PLW0603 - see above
    if _enabled is None:
        return
    _, patches = _enabled
    _enabled = None
    # The next enable() looks for plugins anew, and starts without a trace.
    installed_plugins.cache_clear()
    patches.revert()


def is_enabled() -> bool:
    return _enabled is not None


@functools.cache
def installed_plugins() -> Plugins:
    """The built-in plugins and those found in the environment, loaded once for the command line and the server."""
    return load_plugins()


def make_host(settings: Settings, plugins: Plugins) -> Host:
    # hooks is the only package that knows the host, and needs it: everything else here works without one.
    from responses_plugin.hooks.host import Host

    return Host(settings=settings, plugins=plugins)


def collect_patches(host: Host) -> PatchSet:
    """The patches of all plugins for this host, none applied."""
    return PatchSet(host.version, host.plugins.host_patches(host))


def command_line_states(host: Host) -> list[SeamState]:
    """Whether the host's command line can take the flag."""
    from responses_plugin.hooks import server_flag

    return server_flag.command_line_states(host.cli)


def read_template_rules(folder: str) -> TemplateRules:
    """What the chat template in a model folder accepts. Raises ``ValueError`` where there is none to ask."""
    from responses_plugin.hooks.templates import read_rules

    return read_rules(folder)


def describe_start(host_version: str, states: Sequence[SeamState], plugin_names: Sequence[str]) -> str:
    """The one line that a server prints when it starts with us."""
    taken = [state.seam for state in states if state.status is SeamStatus.TAKEN]
    not_needed = [f"{state.seam} ({state.reason})" for state in states if state.status is SeamStatus.NOT_NEEDED]
    return (
        f"responses plugin {responses_plugin.__version__} on vllm-mlx {host_version}: "
        f"took {', '.join(taken) or 'nothing'}; not needed: {', '.join(not_needed) or 'none'}; "
        f"plugins: {', '.join(describe_plugins(plugin_names))}"
    )


def describe_unmended(host_version: str, states: Sequence[SeamState]) -> str:
    """The warning of a server whose host has changed where we mend its defects; empty when it has not."""
    defects = [
        "\n".join([f"  {defect}", *(f"    {state.seam}: {state}" for state in places)])
        for defect, places in unmended_defects(states).items()
    ]
    if not defects:
        return ""
    listed = "\n".join(defects)
    return (
        f"vllm-mlx {host_version} has changed where the responses plugin mends defects of it. The server starts without "
        f"these patches. What may go wrong, unless this release has mended it by itself:\n{listed}\n"
        "Upgrade the plugin (pip install --upgrade vllm-mlx-responses); docs/compatibility.md says more."
    )


def describe_plugins(names: Sequence[str]) -> list[str]:
    """The plugins that someone installed, by name, after the number of those that come with us."""
    builtin = {module.removeprefix("responses_plugin.") for module in BUILTIN_PLUGINS}
    installed = [name for name in names if name not in builtin]
    return [f"{len(names) - len(installed)} built in", *installed]
