"""A request's way through the plugin with a script in place of the model: for trying a plugin, and for testing it.

    seen = rehearse({"input": "Hi."}, says="Hello.", plugin=my_plugin)
    assert seen.messages == [{"role": "user", "content": "Hi."}]

Parsing, lowering and building are the real ones; the server, the host and the model are not there. Copy this file into
your own tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from responses_plugin.context import EngineFacts, RequestContext
from responses_plugin.generation.builder import ResponseBuilder
from responses_plugin.generation.events import (
    CallArguments,
    CallFinished,
    CallStarted,
    Finished,
    GenerationEvent,
    TextDelta,
)
from responses_plugin.kinds.toolset import Declaration, Toolset, parse_tools
from responses_plugin.lowering.conversation import lower_conversation
from responses_plugin.lowering.request import lower_request
from responses_plugin.parsing import parse_body, parse_input
from responses_plugin.plugins import load_plugins
from responses_plugin.protocol.response import Usage


@dataclass(frozen=True)
class Rehearsal:
    """What happened. A request that is refused raises :class:`responses_plugin.protocol.errors.RequestError` instead."""

    #: The chat messages that the model is given, and the rest of the chat request: its tools, temperature and so on.
    messages: Sequence[Any]
    chat: Mapping[str, Any]
    #: The stream events, and the response object that the last of them carries.
    events: Sequence[Mapping[str, Any]]
    response: Mapping[str, Any]


def rehearse(
    body: Mapping[str, Any],
    *,
    says: str = "",
    calls: Sequence[tuple[str, Mapping[str, Any]]] = (),
    plugin: object = None,
    supports_images: bool = True,
) -> Rehearsal:
    """Answer one request. The model ``says`` a text, then makes ``calls``: names and their arguments."""
    plugins = load_plugins([("rehearsed", plugin)] if plugin is not None else [], discover=False)
    request = parse_body(json.dumps({"model": "rehearsed", **body}).encode())
    context = RequestContext(request, plugins.tool_kinds, plugins.content_parts, Toolset())
    entries = parse_input(plugins, context)
    brought = [Declaration(entry.item.declared_tools(), f"{entry.path}.tools") for entry in entries]
    toolset = parse_tools(request.tools, plugins.tool_kinds, brought)

    context = replace(context, toolset=toolset, engine=EngineFacts(supports_images=supports_images))
    messages = lower_conversation(plugins, entries, context)
    if supports_images:
        messages = [plugins.build_mllm_message(message, context) for message in messages]

    numbers = count(1)
    builder = ResponseBuilder(
        request,
        toolset,
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        now=lambda: 0,
        choose_item=lambda call: plugins.build_output_item(call, context),
    )
    events = builder.start()
    for event in _generated(says, calls):
        events += builder.feed(event)
    plugins.completed(builder.response, context)
    return Rehearsal(messages, lower_request(request, toolset), events, builder.response)


def _generated(says: str, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[GenerationEvent]:
    """The answer, arguments cut in the middle as an engine might."""
    yield TextDelta(says)
    for name, arguments in calls:
        text = json.dumps(arguments)
        yield CallStarted(name)
        yield CallArguments(text[: len(text) // 2])
        yield CallArguments(text[len(text) // 2 :])
        yield CallFinished()
    yield Finished(Usage())
