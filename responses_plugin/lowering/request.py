"""A Responses request → the body of a chat-completions request, without its messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from responses_plugin.kinds.toolset import Choice, Toolset
from responses_plugin.protocol.request import ResponsesRequest, TextFormat

#: Effort levels beyond those that models are trained on, and the nearest one that is.
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def lower_request(request: ResponsesRequest, toolset: Toolset) -> dict[str, Any]:
    """Everything the chat path can use, under its own names; ``messages`` come later, when the engine is known.

    Fields that the protocol does not know (``top_k``, ``stop``, ``enable_thinking``, …) pass through unchanged.
    """
    choice, offered = _offer(request, toolset)
    chat: dict[str, Any] = {
        **_host_options(request.extra),
        "model": request.model,
        "stream": request.stream,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_output_tokens,
    }
    if request.stream:
        chat["stream_options"] = {"include_usage": True}
    if offered.functions:
        chat["tools"] = offered.chat_tools()
        chat["tool_choice"] = choice.chat
    elif request.text.format.type != "text":
        chat["response_format"] = _response_format(request.text.format)
    _lower_effort(request, chat)
    return chat


def _offer(request: ResponsesRequest, toolset: Toolset) -> tuple[Choice, Toolset]:
    """What ``tool_choice`` means, and the tools to offer.

    The host takes tools or a response format, not both: tools that may not be called anyway give way.
    """
    choice = toolset.choose(request.tool_choice)
    if choice.chat == "none" and request.text.format.type != "text":
        return choice, Toolset()
    return choice, toolset


def _host_options(extra: dict[str, Any]) -> dict[str, Any]:
    """Extra fields as the host takes them. Chat messages are not an option: they are lowered from the input."""
    options = {name: value for name, value in extra.items() if name != "messages"}
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    return options


def _lower_effort(request: ResponsesRequest, chat: dict[str, Any]) -> None:
    """``none`` switches thinking off where the template can; the other levels go to the template as they are named."""
    effort = request.reasoning.effort if request.reasoning else None
    if effort == "none":
        chat.setdefault("enable_thinking", False)
    elif effort in _EFFORTS:
        chat.setdefault("reasoning_effort", _EFFORTS[effort])


def lower_final_format(request: ResponsesRequest, chat: Mapping[str, Any]) -> dict[str, Any] | None:
    """The response format that holds for an answer without calls, where ``chat`` could not be given it."""
    if "tools" not in chat or request.text.format.type == "text":
        return None
    return _response_format(request.text.format)


def _response_format(format: TextFormat) -> dict[str, Any]:
    if format.type == "json_object":
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {
            "name": format.name or "response",
            "description": format.description,
            "schema": format.schema_,
            "strict": bool(format.strict),
        },
    }


def describe_answer(request: ResponsesRequest, toolset: Toolset) -> str | None:
    """What the model must be told about the form of its answer.

    The host refuses a response format together with tools, and clients send both: the model may call tools freely
    and is told in words what its final answer must look like.
    """
    wanted = request.text.format
    _, offered = _offer(request, toolset)
    if wanted.type == "text" or not offered.functions:
        return None
    answer = "Unless you call a tool, reply with nothing but one valid JSON object"
    if wanted.type == "json_schema":
        answer += f" that matches this JSON schema:\n{json.dumps(wanted.schema_, ensure_ascii=False)}"
    return answer


def describe_choice(request: ResponsesRequest, toolset: Toolset) -> str | None:
    """What the model must be told of the tools that it may call, where the host does not say it."""
    choice = toolset.choose(request.tool_choice)
    if not choice.told:
        return None
    words = f"Of your tools, call only these now: {', '.join(choice.only or ())}."
    return f"{words} Call at least one of them; do not reply with text alone." if choice.required else words
