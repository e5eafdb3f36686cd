"""Finding out, without a model, whether serving with the plugin would work here, and why not."""

from __future__ import annotations

import logging
import platform
import site
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import responses_plugin
from responses_plugin import runtime
from responses_plugin.patching import HostMismatch, SeamState, SeamStatus
from responses_plugin.plugins import PluginError
from responses_plugin.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from responses_plugin.lowering.template import TemplateRules

logger = logging.getLogger(__name__)

#: The start-up file of the wheel; from Python 3.15 on the interpreter reads the second kind (PEP 829).
STARTUP_FILE = "vllm_mlx_responses.start" if sys.version_info >= (3, 15) else "vllm_mlx_responses.pth"


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What serving with the plugin would meet in this environment."""

    plugin_version: str
    python_version: str
    #: Empty when there is no host.
    host_version: str = ""
    #: The command line's seams first, then those of the plugins.
    seams: Sequence[SeamState] = ()
    plugins: Sequence[str] = ()
    #: For each hook the names of the plugins that implement it.
    hooks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tool_kinds: Sequence[str] = ()
    #: Where the start-up file is that makes ``vllm-mlx serve`` know the flag; empty when it is missing.
    startup_file: str = ""
    #: The model folder that was asked about, and what its chat template accepts if that could be found out.
    model: str = ""
    template: TemplateRules | None = None
    #: Why serving would fail; empty when it would not.
    problem: str = ""


def diagnose(model: str = "") -> Diagnosis:
    """Enable the plugin as a server would, note how that goes, and restore everything.

    Needs no model, and of ``model``, a folder, only the chat template. Never raises for what it is there to find out: a host that is missing or does not fit, and plugins
    that do not.
    """
    found = Diagnosis(
        plugin_version=responses_plugin.__version__,
        python_version=platform.python_version(),
        startup_file=find_startup_file(),
        model=model,
    )
    try:
        plugins = runtime.installed_plugins()
        found = replace(
            found, plugins=plugins.names(), hooks=plugins.hook_names(), tool_kinds=sorted(plugins.tool_kinds)
        )
        host = runtime.make_host(Settings(), plugins)
        found = replace(found, host_version=host.version)
        command_line = runtime.command_line_states(host)
        found = replace(found, seams=command_line)
        patches = runtime.collect_patches(host)
        found = replace(found, seams=[*command_line, *patches.states()])
        patches.apply()
        patches.revert()
        if model:
            found = replace(found, template=runtime.read_template_rules(model))
    except Exception as error:
        logger.debug("serving would fail", exc_info=True)
        return replace(found, problem=_describe_problem(error))
    misfits = [state for state in command_line if state.status is SeamStatus.DOES_NOT_FIT]
    return replace(found, problem=str(HostMismatch(host.version, misfits))) if misfits else found


def find_startup_file() -> str:
    """The path of the start-up file where this interpreter looks for it, or an empty string."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return next((str(path) for folder in folders if (path := Path(folder, STARTUP_FILE)).is_file()), "")


def _describe_problem(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "vllm_mlx":
        return "vllm-mlx is not installed in this environment (pip install vllm-mlx)."
    if isinstance(error, (HostMismatch, PluginError)):
        return str(error)
    return f"{type(error).__name__}: {error}"
