"""The response object: every field of the protocol, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from responses_plugin.protocol.request import ResponsesRequest

#: A wire object: JSON, as dictionaries.
Wire = dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """Token counts of one response. The detail counts are 0 where the engine does not tell them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def with_reasoning(self, tokens: int) -> Usage:
        """The same with ``tokens`` of the output known to be reasoning; counted anew, so never more than there were."""
        return replace(self, reasoning_tokens=min(tokens, self.output_tokens))

    def wire(self) -> Wire:
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {
                "cached_tokens": self.cached_tokens,
                "cache_write_tokens": self.cache_write_tokens,
            },
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": self.input_tokens + self.output_tokens,
        }


def response_object(
    request: ResponsesRequest,
    *,
    id: str,
    created_at: int,
    status: str,
    output: Sequence[Wire] = (),
    completed_at: int | None = None,
    usage: Usage | None = None,
    error: Wire | None = None,
    incomplete_details: Wire | None = None,
) -> Wire:
    """The response as clients read it, with the request echoed. Times are in whole seconds since 1970."""
    extra = request.extra
    return {
        "id": id,
        "object": "response",
        "created_at": created_at,
        "completed_at": completed_at,
        "status": status,
        "error": error,
        "incomplete_details": incomplete_details,
        "model": request.model,
        "instructions": request.instructions,
        "previous_response_id": request.previous_response_id,
        "conversation": {"id": request.conversation_id} if request.conversation_id else None,
        "output": list(output),
        "tools": [_echoed_tool(tool) for tool in request.tools],
        "tool_choice": request.tool_choice,
        "parallel_tool_calls": request.parallel_tool_calls,
        "max_tool_calls": request.max_tool_calls,
        "max_output_tokens": request.max_output_tokens,
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        "presence_penalty": extra.get("presence_penalty", 0.0),
        "frequency_penalty": extra.get("frequency_penalty", 0.0),
        "top_logprobs": request.top_logprobs or 0,
        "text": {**request.text.wire(), "format": {"type": request.text.format.type, **request.text.format.wire()}},
        "reasoning": _echoed_reasoning(request),
        "truncation": request.truncation,
        "store": request.store,
        "background": request.background,
        "service_tier": request.service_tier or "default",
        "metadata": request.metadata,
        "user": request.user,
        "safety_identifier": request.safety_identifier,
        "prompt": request.prompt,
        "prompt_cache_key": request.prompt_cache_key,
        "prompt_cache_retention": request.prompt_cache_retention,
        "usage": usage.wire() if usage else None,
    }


def _echoed_tool(tool: Any) -> Any:
    """A tool as it was sent; strict clients want the nullable fields of a function present."""
    if isinstance(tool, dict) and tool.get("type") == "function":
        return {"description": None, "parameters": None, "strict": None, **tool}
    return tool


def _echoed_reasoning(request: ResponsesRequest) -> Wire:
    reasoning = request.reasoning.wire() if request.reasoning else {}
    return {"effort": None, "summary": None, **reasoning}
