"""All items of a request → its chat messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from responses_plugin.context import RequestContext
from responses_plugin.images import check_image_url
from responses_plugin.lowering.assemble import assemble
from responses_plugin.lowering.messages import ChatMessage
from responses_plugin.lowering.request import describe_answer, describe_choice
from responses_plugin.plugins import Plugins
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.items import Entry, Message, Reasoning, ToolOutput
from responses_plugin.protocol.parts import ImagePart, Part, RefusalPart, TextPart


def lower_conversation(plugins: Plugins, entries: Sequence[Entry], context: RequestContext) -> list[ChatMessage]:
    """Pure and deterministic; raises :class:`RequestError` for what the engine at hand cannot be given."""
    groups = [plugins.lower_input_item(entry.item, context.at(entry.path)) for entry in entries]
    request = context.request
    return assemble(
        request.instructions,
        groups,
        context.engine.template,
        answer_format=describe_answer(request, context.toolset),
        reminder=describe_choice(request, context.toolset),
    )


def locate_remote_image(entries: Sequence[Entry], text: str) -> str | None:
    """The place of the first http(s) image whose URL ``text`` mentions."""
    for path, url in _images(entries):
        if url.startswith("http") and url in text:
            return path
    return None


def find_damaged_image(entries: Sequence[Entry]) -> RequestError | None:
    """The error for the first image that cannot be decoded. Takes long: for when the engine has failed on something."""
    for path, url in _images(entries):
        try:
            check_image_url(url, path, decode=True)
        except RequestError as error:
            return error
    return None


def _images(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Place and URL of every image."""
    for entry in entries:
        field = "output" if isinstance(entry.item, ToolOutput) else "content"
        parts = getattr(entry.item, field, None)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, ImagePart) and part.url:
                yield f"{entry.path}.{field}[{index}].image_url", part.url


def require_input(entries: Sequence[Entry], instructions: str | None) -> None:
    """Refuse a request that says nothing at all, before any model work."""
    if (instructions or "").strip() or any(_says_something(entry) for entry in entries):
        return
    raise RequestError(
        "There is no input: send text, an image, or the output of a tool call in 'input'.",
        param="input",
        code="missing_required_parameter",
    )


def _says_something(entry: Entry) -> bool:
    item = entry.item
    if isinstance(item, Reasoning):
        return any(not _is_blank(part) for part in (*item.content, *item.summary))
    if not isinstance(item, Message):
        return True
    if isinstance(item.content, str):
        return bool(item.content.strip())
    return any(not _is_blank(part) for part in item.content)


def _is_blank(part: Part) -> bool:
    if isinstance(part, TextPart):
        return not part.text.strip()
    return isinstance(part, RefusalPart) and not part.refusal.strip()
