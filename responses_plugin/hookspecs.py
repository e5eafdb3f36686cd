"""Every hook of the plugin, grouped by when it fires.

A third-party package registers a module or object with these hooks through the entry-point group
``responses_plugin``::

    [project.entry-points.responses_plugin]
    my_tools = "my_package.responses"

Implementations are marked with :data:`hookimpl`, and name only the arguments they use. The defaults that this
distribution ships are plugins as well; theirs are marked ``trylast=True``, so yours win without knowing about order.
Use ``@hookimpl(wrapper=True)`` to adjust a result instead of replacing it. *First-result* hooks stop at the first
implementation that returns something other than ``None``; returning ``None`` passes the question on.

No hook is called per token: the finest grain is one call per item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import argparse

    from responses_plugin.context import RequestContext
    from responses_plugin.generation.items import OutputItemKind
    from responses_plugin.kinds.base import ToolKind
    from responses_plugin.kinds.toolset import GeneratedCall
    from responses_plugin.lowering.messages import ChatMessage
    from responses_plugin.lowering.part_kinds import ContentPartKind
    from responses_plugin.patching import HostPatch
    from responses_plugin.protocol.items import Item

PROJECT_NAME = "responses_plugin"

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


# --- When the server is set up -------------------------------------------------------------------------------------


@hookspec
def responses_add_options(parser: argparse.ArgumentParser) -> None:
    """Add command-line options to ``vllm-mlx serve``; fires while its parser is built."""


@hookspec
def responses_host_patches(host: Any) -> Iterable[HostPatch]:
    """Return the patches this plugin needs in the host.

    ``host`` is :class:`responses_plugin.hooks.host.Host`. All patches of all plugins are checked before any is
    applied; all are applied or none, apart from those that only mend a defect of the host and do not fit.
    """
    raise NotImplementedError


@hookspec
def responses_tool_kinds() -> Iterable[ToolKind]:
    """Return tool kinds, each a new tool ``type`` as one value. Two plugins claiming one type is a start-up error."""
    raise NotImplementedError


@hookspec
def responses_content_parts() -> Iterable[ContentPartKind]:
    """Return content-part kinds, each a new part ``type`` as one value. Conflicts are start-up errors as well."""
    raise NotImplementedError


# --- When a request comes in ---------------------------------------------------------------------------------------


@hookspec(firstresult=True)
def responses_parse_input_item(item: Mapping[str, Any], context: RequestContext) -> Item | None:
    """Accept or reinterpret one raw input item (the JSON object as sent, ``type`` filled in).

    Raise :class:`responses_plugin.protocol.errors.RequestError` to refuse it with a 400.
    """


@hookspec(firstresult=True)
def responses_lower_input_item(item: Item, context: RequestContext) -> list[ChatMessage] | None:
    """Return the chat messages of one item; ``[]`` drops it on purpose.

    Adjacent assistant messages are merged afterwards and tool messages are moved behind the call they answer.
    """


@hookspec(firstresult=True)
def responses_build_mllm_message(message: ChatMessage, context: RequestContext) -> ChatMessage | None:
    """Return the template-ready form of one lowered message when the engine is multimodal."""


# --- When the model answers ----------------------------------------------------------------------------------------


@hookspec(firstresult=True)
def responses_build_output_item(generated: GeneratedCall, context: RequestContext) -> OutputItemKind | None:
    """Choose the wire item of a generated tool call, at the moment the item opens."""


@hookspec
def responses_completed(response: Mapping[str, Any], context: RequestContext) -> None:
    """Observe a finished response (the wire object), streamed or not, after it was stored."""
