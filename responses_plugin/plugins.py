"""The plugin manager behind a typed facade.

:func:`load_plugins` registers the built-in plugins, then those found by entry point. A third-party plugin that fails
to import is logged and left out, so that one broken package does not take the server down; one that misspells a
hook, or claims a type that is already taken, stops the start with an error that names it: its author asked for
something we would otherwise silently not do.
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pluggy

from responses_plugin import hookspecs
from responses_plugin.kinds.base import ToolKind
from responses_plugin.lowering.part_kinds import ContentPartKind

if TYPE_CHECKING:
    import argparse

    from responses_plugin.context import RequestContext
    from responses_plugin.generation.items import OutputItemKind
    from responses_plugin.kinds.toolset import GeneratedCall
    from responses_plugin.lowering.messages import ChatMessage
    from responses_plugin.patching import HostPatch
    from responses_plugin.protocol.items import Item

logger = logging.getLogger(__name__)

#: Built-in plugins, by module. They take the same road as third parties.
BUILTIN_PLUGINS = (
    "responses_plugin.kinds",
    "responses_plugin.lowering.parts",
    "responses_plugin.hooks.server_flag",
    "responses_plugin.hooks.request_parsing",
    "responses_plugin.hooks.adjacent_messages",
    "responses_plugin.hooks.tool_text",
    "responses_plugin.hooks.mllm_messages",
    "responses_plugin.hooks.native_video",
    "responses_plugin.hooks.tool_images",
    "responses_plugin.hooks.stale_image_cache",
    "responses_plugin.hooks.batched_prefix_cache",
    "responses_plugin.hooks.repeated_prompts",
    "responses_plugin.hooks.request_positions",
    "responses_plugin.hooks.text_route",
    "responses_plugin.hooks.registry_loads",
    "responses_plugin.hooks.output_items",
    "responses_plugin.hooks.chat",
    "responses_plugin.hooks.cached_tokens",
    "responses_plugin.hooks.endpoints",
    "responses_plugin.hooks.model_list",
)

_Value = TypeVar("_Value", ToolKind, ContentPartKind)

#: Shortens what a trace shows: an item may hold megabytes.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 100


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
        self.tool_kinds = _unique("tool type", manager.hook.responses_tool_kinds, ToolKind)
        self.content_parts = _unique("content part type", manager.hook.responses_content_parts, ContentPartKind)

    def names(self) -> list[str]:
        """The names of all registered plugins, in order of registration."""
        return [name for name, plugin in self._manager.list_name_plugin() if plugin is not None]

    def hook_names(self) -> Mapping[str, list[str]]:
        """For each hook the names of the plugins that implement it."""
        names = [name for name in vars(hookspecs) if name.startswith("responses_")]
        return {name: [impl.plugin_name for impl in getattr(self._hook, name).get_hookimpls()] for name in names}

    def trace(self, write: Callable[[str], object]) -> None:
        """Report every hook call and what came of it through ``write``, one line a call, long values shortened."""

        def after(outcome: pluggy.Result[Any], hook_name: str, hook_impls: Any, kwargs: Mapping[str, Any]) -> None:
            # The context holds the whole request, and is the same all along but for the place in it.
            shown = {name: value.path if name == "context" else value for name, value in kwargs.items()}
            arguments = ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in shown.items())
            ended = f"raised {outcome.exception!r}" if outcome.exception else f"-> {_SHORT.repr(outcome.get_result())}"
            write(f"{hook_name}({arguments}) {ended}")

        self._manager.add_hookcall_monitoring(lambda *_: None, after)

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


def _unique(what: str, hook: pluggy.HookCaller, value_type: type[_Value]) -> Mapping[str, _Value]:
    """The values that all plugins contribute, by the type each claims."""
    owners: dict[str, str] = {}
    for impl in hook.get_hookimpls():
        if impl.wrapper or impl.hookwrapper:
            continue
        for value in _contributed(impl, hook.name, value_type):
            if value.type in owners:
                raise PluginError(
                    f"two plugins claim the {what} {value.type!r}: {owners[value.type]} and {impl.plugin_name}; "
                    "uninstall one of them"
                )
            owners[value.type] = impl.plugin_name
    # Called as the hook that it is, so that wrappers have their say and third parties come before built-ins.
    return {value.type: value for values in hook() for value in values}


def _contributed(impl: pluggy.HookImpl, hook_name: str, value_type: type[_Value]) -> list[_Value]:
    try:
        values = list(cast("Iterable[_Value]", impl.function()))
    except Exception as error:
        raise PluginError(f"plugin {impl.plugin_name} failed in {hook_name}: {error!r}") from error
    for value in values:
        if not isinstance(value, value_type):
            raise PluginError(
                f"plugin {impl.plugin_name}: {hook_name} returns {value_type.__name__} values, not {value!r}"
            )
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
    try:
        manager.register(plugin, name)
        # Here and not once at the end, so that the error is about this plugin.
        manager.check_pending()
    except (ValueError, pluggy.PluginValidationError) as error:
        raise PluginError(f"plugin {name} cannot be used: {error}; the hooks are listed in docs/hooks.md") from error
