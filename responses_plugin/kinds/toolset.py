"""The tools of one request: what the model is offered, and what a generated name means."""

from __future__ import annotations

import functools
import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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


def shown_name(name: str, namespace: str | None = None) -> str:
    """The name under which the model sees a function: its namespace is part of it."""
    if not namespace:
        return host_name(name)
    return host_name(f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}")


@dataclass(frozen=True)
class BoundFunction:
    """A function offered to the model, the kind of its calls, and the name the model sees."""

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


@dataclass(frozen=True)
class GeneratedCall:
    """A call the model has begun to make.

    ``name`` is as the model wrote it; ``function`` what was offered under that name, None for a name nobody declared.
    """

    call_id: str
    name: str
    function: BoundFunction | None


@dataclass(frozen=True)
class Choice:
    """``tool_choice``: its chat form, and what may be called where that is not all that is on offer."""

    chat: str | dict[str, Any]
    #: The names that the model sees; None for no restriction.
    only: Sequence[str] | None = None
    #: Whether the model has to be told of the restriction, and that it must call something.
    told: bool = False
    required: bool = False

    def permits(self, function: BoundFunction | None) -> bool:
        """Whether a call may be made; None stands for a tool that nobody declared."""
        return self.only is None or (function is not None and function.shown_as in self.only)


class Toolset:
    """The functions of a request, in the order they were declared.

    ``unavailable`` lists declared tools that the model is not offered because nothing here can run or return them,
    ``deferred`` those that it has not found yet.
    """

    def __init__(
        self,
        functions: Sequence[BoundFunction] = (),
        unavailable: Sequence[str] = (),
        deferred: Sequence[BoundFunction] = (),
    ) -> None:
        self.functions = functions
        self.unavailable = unavailable
        self.deferred = deferred
        self._by_shown_name = {bound.shown_as: bound for bound in functions}

    def find_shown(self, name: str) -> BoundFunction | None:
        """The function the model means by ``name``.

        Models also write the name that the client gave, with its namespace or without; that is taken where it can
        mean one function only.
        """
        if name in self._by_shown_name:
            return self._by_shown_name[name]
        meant = [bound for bound in self.functions if name in _other_names(bound.function)]
        return meant[0] if len(meant) == 1 else None

    def shown_as(self, name: str, namespace: str | None) -> str:
        """The name under which the model knows a function of the history, declared or not."""
        for bound in self.functions:
            if (bound.function.name, bound.function.namespace) == (name, namespace):
                return bound.shown_as
        return shown_name(name, namespace)

    def chat_tools(self) -> list[dict[str, Any]]:
        return [bound.chat_tool() for bound in self.functions]

    def choose(self, choice: str | Mapping[str, Any]) -> Choice:
        """Lower ``tool_choice``.

        Raises :class:`RequestError` (param ``tool_choice``) for a name that no tool has and for a form that this
        server cannot honour.
        """
        if isinstance(choice, str):
            if choice not in ("auto", "none", "required"):
                raise _bad_choice(f"'{choice}' is not one of 'auto', 'none' and 'required'")
            if choice == "required" and not self.functions:
                raise _bad_choice("'required' needs at least one tool that this server can offer")
            return Choice(choice)
        parsed = ToolChoice.parse(choice, "tool_choice")
        if parsed.type == "allowed_tools":
            return self._allowed(parsed)
        shown_as = _chosen(parsed, "tool_choice", self.functions).shown_as
        return Choice({"type": "function", "function": {"name": shown_as}}, [shown_as])

    def _allowed(self, choice: ToolChoice) -> Choice:
        """What ``allowed_tools`` leaves. Declared tools that are not offered are left out here as well.

        The tools stay on offer all the same: without some of them the prompt would have another beginning.
        """
        allowed = []
        for index, raw in enumerate(choice.tools):
            path = f"tool_choice.tools[{index}]"
            tool = ToolChoice.parse(raw, path)
            if tool.type not in self.unavailable:
                allowed.append(_chosen(tool, path, [*self.functions, *self.deferred]))
        only = [bound.shown_as for bound in self.functions if bound in allowed]
        if only:
            return Choice("auto", only, told=True, required=choice.mode == "required")
        if choice.mode == "required":
            raise _bad_choice("'required' needs at least one allowed tool that this server can offer")
        return Choice("none")


def _chosen(choice: ToolChoice, path: str, functions: Iterable[BoundFunction]) -> BoundFunction:
    """The function a choice stands for. Its type alone says it for kinds whose tools have no name."""
    for bound in functions:
        if bound.kind.type == choice.type:
            if choice.name is None and "name" in bound.kind.tool.model_fields:
                raise missing(f"{path}.name")
            if choice.name in (None, bound.function.name) and choice.namespace in (None, bound.function.namespace):
                return bound
    what = f"tool '{choice.name}' of type '{choice.type}'" if choice.name else f"tool of type '{choice.type}'"
    raise _bad_choice(f"no {what} is among the tools of this request that can be offered to the model")


def _other_names(function: Function) -> tuple[str, ...]:
    return function.name, f"{function.namespace}.{function.name}"


def _bad_choice(problem: str) -> RequestError:
    return RequestError(f"Invalid value for 'tool_choice': {problem}.", param="tool_choice", code="invalid_value")


class Declaration(NamedTuple):
    """Raw tools that an item of the conversation brings along, and where they stand in the body."""

    tools: Sequence[Any]
    path: str


def parse_tools(
    raw_tools: Sequence[Any], kinds: Mapping[str, ToolKind], brought: Iterable[Declaration] = ()
) -> Toolset:
    """Bind the request's tools, and those ``brought`` later in the conversation, to their kinds.

    A tool of a type no kind claims is accepted and not offered: clients send hosted tools along with their own. A
    function that was declared already is left out. So is a deferred one where the model can search for it, until a
    declaration that is not deferred says that it was found.
    """
    declared: list[tuple[str, BoundFunction]] = []
    unavailable: list[str] = []
    for declaration in [Declaration(raw_tools, "tools"), *brought]:
        for index, raw in enumerate(declaration.tools):
            path = f"{declaration.path}[{index}]"
            bound_here = _bind(raw, path, kinds)
            if not bound_here:
                unavailable.append(raw["type"])
                _log_once(raw["type"][:100])
            declared += [(path, bound) for bound in bound_here]
    searching = any(bound.kind.type == "tool_search" for _, bound in declared)
    functions: dict[tuple[str, str | None], BoundFunction] = {}
    deferred: list[BoundFunction] = []
    for path, bound in declared:
        if searching and bound.function.deferred:
            deferred.append(bound)
        elif functions.setdefault(_identity(bound), bound) is not bound:
            logger.warning("%s: a second tool named %r is not offered to the model", path, bound.function.name)
    return Toolset(_told_apart(functions.values()), unavailable, deferred)


def _bind(raw: Any, path: str, kinds: Mapping[str, ToolKind]) -> list[BoundFunction]:
    kind = kinds.get(Tool.parse(require_object(raw, path), path).type)
    if kind is None:
        return []
    return [
        BoundFunction(function, function.kind or kind, shown_name(function.name, function.namespace))
        for function in kind.functions(kind.tool.parse(raw, path))
    ]


def _identity(bound: BoundFunction) -> tuple[str, str | None]:
    return bound.function.name, bound.function.namespace


def _told_apart(functions: Iterable[BoundFunction]) -> list[BoundFunction]:
    """The functions under names of their own: joining a namespace and a name may give one name twice."""
    taken: dict[str, BoundFunction] = {}
    for bound in functions:
        name = bound.shown_as
        if name in taken:
            # A character that no name of the host may hold keeps this apart from every other name.
            name = host_name(f"{bound.function.namespace}/{bound.function.name}")
        taken[name] = replace(bound, shown_as=name)
    return list(taken.values())


@functools.lru_cache(maxsize=1000)
def _log_once(tool_type: str) -> None:
    """Clients declare the same tools with every request."""
    logger.warning("tools of type %r are accepted and not offered to the model", tool_type)
