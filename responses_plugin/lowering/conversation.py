"""All items of a request → its chat messages."""

from __future__ import annotations

from collections.abc import Sequence

from responses_plugin.context import RequestContext
from responses_plugin.lowering.assemble import assemble
from responses_plugin.lowering.messages import ChatMessage
from responses_plugin.lowering.request import lower_instructions
from responses_plugin.plugins import Plugins
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.items import Entry, Message
from responses_plugin.protocol.parts import Part, RefusalPart, TextPart


def lower_conversation(plugins: Plugins, entries: Sequence[Entry], context: RequestContext) -> list[ChatMessage]:
    """Pure and deterministic; raises :class:`RequestError` for what the engine at hand cannot be given."""
    groups = [plugins.lower_input_item(entry.item, context.at(entry.path)) for entry in entries]
    return assemble(lower_instructions(context.request, context.toolset), groups)


def require_input(entries: Sequence[Entry], instructions: str | None) -> None:
    """Refuse a request that says nothing at all, before any model work."""
    if instructions or any(_says_something(entry) for entry in entries):
        return
    raise RequestError(
        "There is no input: send text, an image, or the output of a tool call in 'input'.",
        param="input",
        code="missing_required_parameter",
    )


def _says_something(entry: Entry) -> bool:
    if not isinstance(entry.item, Message):
        return True
    content = entry.item.content
    if isinstance(content, str):
        return bool(content.strip())
    return any(not _is_blank(part) for part in content)


def _is_blank(part: Part) -> bool:
    if isinstance(part, TextPart):
        return not part.text.strip()
    return isinstance(part, RefusalPart) and not part.refusal.strip()
