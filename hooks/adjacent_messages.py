"""The results of parallel calls stay apart, and so do calls in adjacent assistant messages.

Before 0.6.0 the chat handler merges every two adjacent messages of one role, tool messages and calls among them: of
two results the second loses its ``tool_call_id``, of two calls the second is lost.
"""

from __future__ import annotations

from functools import wraps
from itertools import groupby
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable

NORMALIZE = "_normalize_messages"

Messages = list[dict[str, Any]]


@hookimpl(trylast=True)
def responses_host_patches(host: Any) -> list[SymbolPatch]:
    def not_needed() -> str | None:
        call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        exchange: Messages = [
            {"role": "assistant", "content": "I look."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "blue"},
            {"role": "tool", "tool_call_id": "call_2", "content": "red"},
        ]
        return "host keeps calls and results apart" if getattr(host.server, NORMALIZE)(exchange) == exchange else None

    return [
        SymbolPatch(
            seam="adjacent tool messages",
            owner=host.server,
            name=NORMALIZE,
            parameters=("messages",),
            replace=keep_apart,
            remove_when="no supported release merges calls or tool messages; from 0.6.0 on the host does not",
            not_needed=not_needed,
            defect="of two adjacent calls the second is lost, and of two adjacent tool results the second loses its id",
        )
    ]


def keep_apart(original: Callable[[Messages], Messages]) -> Callable[[Messages], Messages]:
    """The host's normalisation for each run of plain messages, and for every message of a tool exchange alone."""

    @wraps(original)
    def normalize(messages: Messages) -> Messages:
        normalized: Messages = []
        for is_exchange, run in groupby(messages, _is_exchange):
            for group in ([message] for message in run) if is_exchange else [list(run)]:
                normalized += original(group)
        return normalized

    return normalize


def _is_exchange(message: dict[str, Any]) -> bool:
    return message["role"] == "tool" or bool(message.get("tool_calls"))
