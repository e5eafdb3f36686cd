"""The tools of one request: what the model is offered, and what a generated name means."""

from __future__ import annotations

import functools
import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.tools import Tool, ToolChoice
from responses_plugin.protocol.wire import missing, require_object

logger = logging.getLogger(__name__)

#: The host's rule for function names (its ToolDefinition refuses others).
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REFUSED_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")
#: Characters of the digest that keeps mapped names apart.
_DIGEST_LENGTH = 8


def host_name(name: str) -> str:
    """``name`` if the host accepts it, else a stable stand-in that depends on nothing but ``name``."""
    if _HOST_NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGEST_LENGTH]
    readable = _REFUSED_CHARACTERS.sub("_", name)[: 64 - _DIGEST_LENGTH - 1]
    return f"{readable}_{digest}"


@dataclass(frozen=True)
class BoundFunction:
    """A function offered to the model, the kind it came from, and the name the model sees."""

    function: Function
    kind: ToolKind
    shown_as: str

    def chat_tool(self) -> dict[str, Any]:
        """The chat-completions form. Templates expect an object schema, so a missing one is filled in."""
        parameters = self.function.parameters or {}
        if "type" not in parameters:
            parameters = {"type": "object", "properties": {}, **parameters}
        function = {"name": self.shown_as, "description": self.function.description or "", "parameters": parameters}
        return {"type": "function", "function": function}


class Toolset:
    """The functions of a request, in the order they were declared.

    ``unavailable`` lists declared tools that the model is not offered because nothing here can run or return them.
    """

    def __init__(self, functions: Sequence[BoundFunction] = (), unavailable: Sequence[str] = ()) -> None:
        self.functions = functions
        self.unavailable = unavailable
        self._by_shown_name = {bound.shown_as: bound for bound in functions}

    def find_shown(self, name: str) -> BoundFunction | None:
        """The function the model means by ``name``."""
        return self._by_shown_name.get(name)

    def chat_tools(self) -> list[dict[str, Any]]:
        return [bound.chat_tool() for bound in self.functions]

    def choose(self, choice: str | Mapping[str, Any]) -> tuple[str | dict[str, Any], Toolset]:
        """Lower ``tool_choice``: the chat form, and the functions it leaves on offer.

        Raises :class:`RequestError` (param ``tool_choice``) for a name that no tool has and for a form that this
        server cannot honour.
        """
        if isinstance(choice, str):
            if choice not in ("auto", "none", "required"):
                raise _bad_choice(f"'{choice}' is not one of 'auto', 'none' and 'required'")
            if choice == "required" and not self.functions:
                raise _bad_choice("'required' needs at least one tool that this server can offer")
            return choice, self
        parsed = ToolChoice.parse(choice, "tool_choice")
        if parsed.type == "allowed_tools":
            return parsed.mode, self._allowed(parsed)
        shown_as = self._chosen(parsed, "tool_choice").shown_as
        return {"type": "function", "function": {"name": shown_as}}, self

    def _allowed(self, choice: ToolChoice) -> Toolset:
        """What ``allowed_tools`` leaves. Declared tools that are not offered are left out here as well."""
        allowed = set()
        for index, raw in enumerate(choice.tools):
            path = f"tool_choice.tools[{index}]"
            tool = ToolChoice.parse(raw, path)
            if tool.type not in self.unavailable:
                allowed.add(self._chosen(tool, path).shown_as)
        if not allowed and choice.mode == "required":
            raise _bad_choice("'required' needs at least one allowed tool that this server can offer")
        return Toolset([bound for bound in self.functions if bound.shown_as in allowed], self.unavailable)

    def _chosen(self, choice: ToolChoice, path: str) -> BoundFunction:
        """The function a choice stands for. Its type alone says it for kinds whose tools have no name."""
        for bound in self.functions:
            if bound.kind.type == choice.type:
                if choice.name is None and "name" in bound.kind.tool.model_fields:
                    raise missing(f"{path}.name")
                if choice.name in (None, bound.function.name):
                    return bound
        what = f"tool '{choice.name}' of type '{choice.type}'" if choice.name else f"tool of type '{choice.type}'"
        raise _bad_choice(f"no {what} is among the tools of this request that can be offered to the model")


def _bad_choice(problem: str) -> RequestError:
    return RequestError(f"Invalid value for 'tool_choice': {problem}.", param="tool_choice", code="invalid_value")


def parse_tools(raw_tools: Iterable[Any], kinds: Mapping[str, ToolKind]) -> Toolset:
    """Bind the declared tools to their kinds.

    A tool of a type no kind claims is accepted and not offered: clients send hosted tools along with their own. A
    second tool of the same name is left out, the model could not tell them apart.
    """
    functions: dict[str, BoundFunction] = {}
    unavailable: list[str] = []
    for index, raw in enumerate(raw_tools):
        path = f"tools[{index}]"
        kind = kinds.get(Tool.parse(require_object(raw, path), path).type)
        if kind is None:
            unavailable.append(raw["type"])
            _log_once(raw["type"][:100])
            continue
        for function in kind.functions(kind.tool.parse(raw, path)):
            bound = BoundFunction(function, kind, host_name(function.name))
            if bound.shown_as in functions:
                logger.warning("%s: a second tool named %r is not offered to the model", path, function.name)
            else:
                functions[bound.shown_as] = bound
    return Toolset(list(functions.values()), unavailable)


@functools.lru_cache(maxsize=1000)
def _log_once(tool_type: str) -> None:
    """Clients declare the same tools with every request."""
    logger.warning("tools of type %r are accepted and not offered to the model", tool_type)
