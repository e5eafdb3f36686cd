"""The seam of output item building: the default wire form of a generated call."""

from __future__ import annotations

from responses_plugin.context import RequestContext
from responses_plugin.generation.items import OutputItemKind
from responses_plugin.hookspecs import hookimpl
from responses_plugin.kinds.function import FUNCTION
from responses_plugin.kinds.toolset import GeneratedCall


@hookimpl(trylast=True)
def responses_build_output_item(generated: GeneratedCall, context: RequestContext) -> OutputItemKind:
    """The form that the declared tool's kind has; a name nobody declared is a plain function call."""
    kind = generated.function.kind if generated.function else FUNCTION
    assert kind.output_item is not None, "a function belongs to a kind with calls"
    return kind.output_item
