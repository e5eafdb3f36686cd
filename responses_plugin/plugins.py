"""The plugin manager behind a typed facade.

:func:`load_plugins` registers the built-in plugins, then those found by entry point. A third-party plugin that fails
to import is logged and left out, so that one broken package does not take the server down; one that misspells a
hook, or claims a type that is already taken, stops the start with an error that names it: its author asked for
something we would otherwise silently not do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pluggy

from responses_plugin import hookspecs

if TYPE_CHECKING:
    import argparse

    from responses_plugin.context import RequestContext
    from responses_plugin.generation.items import GeneratedCall, OutputItemKind
    from responses_plugin.kinds.base import ToolKind
    from responses_plugin.lowering.messages import ChatMessage
    from responses_plugin.lowering.parts import ContentPartKind
    from responses_plugin.patching import HostPatch
    from responses_plugin.protocol.items import Item

logger = logging.getLogger(__name__)

#: Built-in plugins, by module. They take the same road as third parties.
BUILTIN_PLUGINS = (
    "responses_plugin.kinds",
    "responses_plugin.lowering.parts",
    "responses_plugin.hooks.server_flag",
    "responses_plugin.hooks.request_parsing",
    "responses_plugin.hooks.mllm_messages",
    "responses_plugin.hooks.stale_image_cache",
    "responses_plugin.hooks.output_items",
    "responses_plugin.hooks.chat",
    "responses_plugin.hooks.endpoints",
)

_Value = TypeVar("_Value")


class PluginError(RuntimeError):
    """A plugin cannot be used as it is; the message names the plugin and what to change."""


class Plugins:
    """Typed access to the registered hooks.

    The per-request methods may be called from worker threads: hook implementations must not keep state of their own
    between calls without guarding it.
    """

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._manager = manager
        self._hook = manager.hook
        self.tool_kinds: Mapping[str, ToolKind] = self._unique(
            "tool type", manager.hook.responses_tool_kinds, lambda kind: kind.type
        )
        self.content_parts: Mapping[str, ContentPartKind] = self._unique(
            "content part type", manager.hook.responses_content_parts, lambda kind: kind.type
        )

    def names(self) -> list[str]:
        """The names of all registered plugins, in order of registration."""
        return [name for name, plugin in self._manager.list_name_plugin() if plugin is not None]

    def hook_names(self) -> Mapping[str, list[str]]:
        """For each hook the names of the plugins that implement it."""
        names = [name for name in vars(hookspecs) if name.startswith("responses_")]
        return {name: [impl.plugin_name for impl in getattr(self._hook, name).get_hookimpls()] for name in names}

    def trace(self, write: Callable[[str], object]) -> None:
        """Report every hook call and its result through ``write``, one line or more a call."""
        self._manager.trace.root.setwriter(lambda line: write(line.rstrip("\n")))
        self._manager.enable_tracing()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        self._hook.responses_add_options(parser=parser)

    def host_patches(self, host: Any) -> list[HostPatch]:
        """The patches of all plugins, built-in ones first."""
        per_plugin = self._hook.responses_host_patches(host=host)
        return [patch for patches in reversed(per_plugin) for patch in patches]

    def parse_input_item(self, item: Mapping[str, Any], context: RequestContext) -> Item:
        parsed: Item = self._hook.responses_parse_input_item(item=item, context=context)
        return parsed

    def lower_input_item(self, item: Item, context: RequestContext) -> list[ChatMessage]:
        messages: list[ChatMessage] = self._hook.responses_lower_input_item(item=item, context=context)
        return messages

    def build_mllm_message(self, message: ChatMessage, context: RequestContext) -> ChatMessage:
        built: ChatMessage = self._hook.responses_build_mllm_message(message=message, context=context)
        return built

    def build_output_item(self, generated: GeneratedCall, context: RequestContext) -> OutputItemKind:
        kind: OutputItemKind = self._hook.responses_build_output_item(generated=generated, context=context)
        return kind

    def completed(self, response: Mapping[str, Any], context: RequestContext) -> None:
        """Tell the observers; one that raises is logged and does not spoil the answer."""
        try:
            self._hook.responses_completed(response=response, context=context)
        except Exception:
            logger.exception("a plugin failed in responses_completed for %s", response.get("id"))

    def _unique(self, what: str, hook: pluggy.HookCaller, type_of: Callable[[_Value], str]) -> Mapping[str, _Value]:
        values: dict[str, _Value] = {}
        owners: dict[str, str] = {}
        for impl in hook.get_hookimpls():
            for value in cast("Iterable[_Value]", impl.function()):
                key = type_of(value)
                if key in owners:
                    raise PluginError(
                        f"two plugins claim the {what} {key!r}: {owners[key]} and {impl.plugin_name}; "
                        "uninstall one of them, or block one by name"
                    )
                owners[key] = impl.plugin_name
                values[key] = value
        return values


def load_plugins(extra: Iterable[tuple[str, object]] = (), *, discover: bool = True) -> Plugins:
    """Register the built-in plugins, ``extra`` ones given as (name, plugin), and those installed.

    Raises :class:`PluginError` for a misspelled hook and for a type claimed twice.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT_NAME)
    manager.add_hookspecs(hookspecs)
    for module in BUILTIN_PLUGINS:
        _register(manager, import_module(module), module.removeprefix("responses_plugin."))
    for name, plugin in extra:
        _register(manager, plugin, name)
    if discover:
        for entry_point in entry_points(group=hookspecs.PROJECT_NAME):
            try:
                plugin = entry_point.load()
            except Exception:
                logger.exception("plugin %s (%s) failed to import and is skipped", entry_point.name, entry_point.value)
                continue
            _register(manager, plugin, entry_point.name)
    return Plugins(manager)


def _register(manager: pluggy.PluginManager, plugin: object, name: str) -> None:
    """Register one plugin, turning pluggy's complaints into errors that name it."""
    misspelled = [
        attribute
        for attribute in dir(plugin)
        if manager.parse_hookimpl_opts(plugin, attribute) is not None
        and manager.parse_hookspec_opts(hookspecs, attribute) is None
    ]
    if misspelled:
        raise PluginError(
            f"plugin {name}: no such hook: {', '.join(misspelled)}; the hooks are listed in docs/hooks.md"
        )
    try:
        manager.register(plugin, name)
    except (ValueError, pluggy.PluginValidationError) as error:
        raise PluginError(f"plugin {name} cannot be registered: {error}") from error
