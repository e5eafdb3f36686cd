"""Host patches: how we attach to a program that was not built to be extended.

A patch names one place in the host, what it expects to find there, and when it can be removed. A :class:`PatchSet`
looks at every place before it touches any, applies all of its patches or none, and can undo all of it exactly. A host
that does not fit is a :class:`HostMismatch`, whose text says what to do; it is never patched in part, and never left
alone in silence.

Patches that only mend a defect of the host are another matter: a later host that has changed there may have mended it
itself, and serves in any case as it does without us. Where one of them does not fit, the defect is left as it is, with
all of its places, and the state of each says so.

Nothing here knows the host: owners, apps and versions are passed in.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.routing import APIRoute
    from starlette.routing import BaseRoute

logger = logging.getLogger(__name__)

Revert = Callable[[], None]

_ABSENT = object()


class SeamStatus(Enum):
    """What becomes of one patch on this host."""

    TAKEN = "taken"
    NOT_NEEDED = "not needed"
    NOT_MENDED = "not mended"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True, kw_only=True)
class SeamState:
    """One seam as it was found.

    ``reason`` belongs to *not needed*, ``expected`` and ``found`` to *does not fit* and *not mended*. ``defect`` is that
    of the patch, and empty for a seam that serving needs.
    """

    seam: str
    status: SeamStatus
    reason: str = ""
    expected: str = ""
    found: str = ""
    defect: str = ""

    def __str__(self) -> str:
        """``taken``, ``not needed: …``, ``does not fit: expected …, found …`` or the same as ``not mended: …``."""
        if self.status is SeamStatus.NOT_NEEDED:
            return f"not needed: {self.reason}"
        if self.status in (SeamStatus.NOT_MENDED, SeamStatus.DOES_NOT_FIT):
            return f"{self.status.value}: expected {self.expected}, found {self.found}"
        return "taken"


class HostMismatch(RuntimeError):  # noqa: N818 - the name says what is wrong better than "HostMismatchError"
    """The installed host is not one that we can patch; nothing of it was changed.

    The message names the host's version and, for every seam that does not fit, what was expected and what was found.
    """

    def __init__(self, host_version: str, misfits: Sequence[SeamState]) -> None:
        self.host_version = host_version
        self.misfits = tuple(misfits)
        seams = "\n".join(
            f"  {misfit.seam}: expected {misfit.expected}, found {misfit.found}" for misfit in self.misfits
        )
        super().__init__(
            f"vllm-mlx {host_version} does not fit the responses plugin; nothing was changed.\n{seams}\n"
            "Upgrade the plugin (pip install --upgrade vllm-mlx-responses), install a vllm-mlx release that "
            "docs/compatibility.md lists, or start without --responses-plugin."
        )


class HostPatch(Protocol):
    """One replaced place in the host."""

    @property
    def seam(self) -> str:
        """The name of the place, as an operator reads it."""

    @property
    def remove_when(self) -> str:
        """The condition on which this patch can be deleted from the source."""

    def inspect(self) -> SeamState:
        """Look at the host without changing it."""

    def apply(self) -> Revert:
        """Change the host, and return what undoes the change exactly."""


@dataclass(frozen=True, kw_only=True)
class SymbolPatch:
    """Wraps a function of a module or a method of a class.

    ``replace`` is called with the original function and returns its replacement, which should call the original
    rather than repeat it. A static or class method stays one; ``replace`` sees the plain function.
    """

    seam: str
    #: The module or class, or where it can be imported from: ``"package.module"`` or ``"package.module:Class"``. One
    #: that is not there is then a place that does not fit, like any other.
    owner: ModuleType | type | str
    name: str
    #: The parameters that the original must take. Positional ones stand in this order at the start of its signature
    #: (``self`` and ``cls`` included), keyword-only ones anywhere. More are fine when they are optional.
    parameters: tuple[str, ...]
    replace: Callable[[Callable[..., Any]], Callable[..., Any]]
    remove_when: str
    #: Why this host needs no patch, or ``None`` when it does. Asked also when the symbol does not fit: the host may do
    #: the right thing in another way.
    not_needed: Callable[[], str | None] | None = None
    #: The defect of the host that is mended here, as an operator reads it: what goes wrong without the patch. Empty when
    #: the plugin itself needs the patch. Patches of one defect say the same and are applied together or not at all.
    defect: str = ""

    def inspect(self) -> SeamState:
        state = _fit(self.seam, self.not_needed)
        if state.status is not SeamStatus.NOT_NEEDED and (found := self._misfit()) is not None:
            state = _misfit(self.seam, f"{self._path}({', '.join(self.parameters)})", found)
        if self.defect and state.status is SeamStatus.DOES_NOT_FIT:
            state = replace(state, status=SeamStatus.NOT_MENDED)
        return replace(state, defect=self.defect)

    def find_owner(self) -> ModuleType | type:
        """The module or class itself. Raises ``ImportError`` or ``AttributeError`` where it is not to be found."""
        if not isinstance(self.owner, str):
            return self.owner
        module_name, _, class_name = self.owner.partition(":")
        module = importlib.import_module(module_name)
        return cast("type", getattr(module, class_name)) if class_name else module

    def _misfit(self) -> str | None:
        """What was found in place of the symbol; ``None`` where it fits."""
        try:
            owner = self.find_owner()
        except Exception as error:  # noqa: BLE001 - whatever the host's module fails with
            return f"{type(error).__name__}: {error}"
        try:
            declared = inspect.getattr_static(owner, self.name)
        except AttributeError:
            return "no such name"
        function = _unwrap_descriptor(declared)
        if not callable(function):
            return f"a {type(function).__name__}"
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return "a callable without a readable signature"
        return None if accepts(signature, self.parameters) else f"{self._path}{signature}"

    def apply(self) -> Revert:
        owner = self.find_owner()
        declared = inspect.getattr_static(owner, self.name)
        original = _unwrap_descriptor(declared)
        replacement: Any = self.replace(original)
        if replacement is not original and getattr(replacement, "__wrapped__", None) is not original:
            replacement = functools.update_wrapper(replacement, original)
        if isinstance(declared, staticmethod | classmethod):
            replacement = type(declared)(replacement)
        # An inherited method is restored by removing ours, not by writing a copy into the subclass.
        before = vars(owner).get(self.name, _ABSENT)
        setattr(owner, self.name, replacement)

        def revert() -> None:
            if vars(owner).get(self.name, _ABSENT) is not replacement:
                logger.warning("%s was replaced by someone else after us; restoring the host's own", self._path)
            if before is _ABSENT:
                delattr(owner, self.name)
            else:
                setattr(owner, self.name, before)

        return revert

    @property
    def _path(self) -> str:
        if isinstance(self.owner, str):
            return f"{self.owner.replace(':', '.')}.{self.name}"
        if isinstance(self.owner, ModuleType):
            return f"{self.owner.__name__}.{self.name}"
        return f"{self.owner.__module__}.{self.owner.__qualname__}.{self.name}"


@dataclass(frozen=True, kw_only=True)
class RoutePatch:
    """Serves one method of one path of the host's app with our endpoint.

    The host's own route is replaced where it stands, so that no other route comes to shadow it; a route that the host
    does not have is added. The endpoint returns a ``Response``, or a value that FastAPI serialises as it is.
    """

    seam: str
    app: FastAPI
    path: str
    method: str
    endpoint: Callable[..., Any]
    remove_when: str
    #: FastAPI dependencies, such as ``Depends(verify_api_key)``.
    dependencies: Sequence[Any] = ()
    #: A subclass of FastAPI's ``APIRoute``, for an endpoint that needs one.
    route_class: type[APIRoute] | None = None
    #: Merged into the route's OpenAPI operation.
    openapi_extra: dict[str, Any] | None = None
    not_needed: Callable[[], str | None] | None = None

    def inspect(self) -> SeamState:
        expected = f"at most one route for {self.method} {self.path}, and that for no other method"
        if not hasattr(self.app, "add_api_route"):
            return _misfit(self.seam, "a FastAPI app", f"a {type(self.app).__name__}")
        routes = self._host_routes()
        if len(routes) > 1:
            return _misfit(self.seam, expected, f"{len(routes)} of them")
        for route in routes:
            if not _methods(route) <= {self.method, "HEAD"}:
                return _misfit(self.seam, expected, f"one for {', '.join(sorted(_methods(route)))}")
        return _fit(self.seam, self.not_needed)

    def apply(self) -> Revert:
        # add_api_route, because include_router hides the path of the route from the host's metrics.
        routes = self.app.router.routes
        replaced = self._host_routes()
        self.app.router.add_api_route(
            self.path,
            self.endpoint,
            methods=[self.method],
            dependencies=list(self.dependencies),
            response_model=None,
            route_class_override=self.route_class,
            openapi_extra=self.openapi_extra,
        )
        ours = routes[-1]
        for route in replaced:
            index = _index(routes, route)
            routes.pop()
            routes[index] = ours
        schema_before = self._forget_schema()

        def revert() -> None:
            self.app.openapi_schema = schema_before
            if not any(route is ours for route in routes):
                logger.warning("the route %s %s was removed by someone else after us", self.method, self.path)
            elif replaced:
                routes[_index(routes, ours)] = replaced[0]
            else:
                del routes[_index(routes, ours)]

        return revert

    def _host_routes(self) -> list[BaseRoute]:
        """The routes that answer this method and path, whatever their path parameters are called."""
        return [
            route
            for route in self.app.router.routes
            if _shape(getattr(route, "path", "")) == _shape(self.path) and self.method in _methods(route)
        ]

    def _forget_schema(self) -> dict[str, Any] | None:
        """Make the app describe itself anew when it is next asked, and return the description it had."""
        schema, self.app.openapi_schema = self.app.openapi_schema, None
        return schema


@dataclass(frozen=True, kw_only=True)
class WebSocketPatch:
    """Adds a WebSocket route to the host's app, which has none of its own at that path."""

    seam: str
    app: FastAPI
    path: str
    endpoint: Callable[..., Any]
    remove_when: str

    def inspect(self) -> SeamState:
        from starlette.routing import WebSocketRoute

        routes = [route for route in self.app.router.routes if isinstance(route, WebSocketRoute)]
        if any(route.path == self.path for route in routes):
            return _misfit(self.seam, f"no WebSocket route at {self.path}", "one")
        return _fit(self.seam, None)

    def apply(self) -> Revert:
        routes = self.app.router.routes
        self.app.add_api_websocket_route(self.path, self.endpoint)
        ours = routes[-1]

        def revert() -> None:
            routes[:] = [route for route in routes if route is not ours]

        return revert


class PatchSet:
    """Patches that belong together: checked together, applied all or none, reverted together."""

    def __init__(self, host_version: str, patches: Iterable[HostPatch]) -> None:
        self.host_version = host_version
        self.patches = tuple(patches)
        self._applied: tuple[list[SeamState], list[Revert]] | None = None

    def states(self) -> list[SeamState]:
        """The state of every seam in order: as found now, or as found by :meth:`apply` while applied."""
        if self._applied is not None:
            return list(self._applied[0])
        return _whole_defects([patch.inspect() for patch in self.patches])

    def apply(self) -> None:
        """Apply all patches that are needed and fit; does nothing when they are applied already.

        Raises :class:`HostMismatch`, with the host as it was, when one that serving needs does not fit, or when any
        cannot be applied although it does.
        """
        if self._applied is not None:
            return
        states = self.states()
        misfits = [state for state in states if state.status is SeamStatus.DOES_NOT_FIT]
        if misfits:
            raise HostMismatch(self.host_version, misfits)
        reverts: list[Revert] = []
        for patch, state in zip(self.patches, states, strict=True):
            if state.status is not SeamStatus.TAKEN:
                continue
            try:
                reverts.append(patch.apply())
            except Exception as error:
                _revert_all(reverts)
                misfit = _misfit(patch.seam, "a place that can be patched", f"{type(error).__name__}: {error}")
                raise HostMismatch(self.host_version, [misfit]) from error
        self._applied = states, reverts

    def revert(self) -> None:
        """Restore the host, last patch first; does nothing when they are not applied."""
        if self._applied is None:
            return
        _, reverts = self._applied
        self._applied = None
        _revert_all(reverts)


def unmended_defects(states: Iterable[SeamState]) -> dict[str, list[SeamState]]:
    """The defects that are left as they are on this host, each with its places."""
    defects: dict[str, list[SeamState]] = {}
    for state in states:
        if state.status is SeamStatus.NOT_MENDED:
            defects.setdefault(state.defect, []).append(state)
    return defects


def accepts(signature: inspect.Signature, parameters: Sequence[str]) -> bool:
    """Whether a function can be called with exactly ``parameters``, its positional ones in that order."""
    declared = signature.parameters.values()
    positional = [p.name for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keyword_only = {p.name for p in declared if p.kind is p.KEYWORD_ONLY}
    required = {p.name for p in declared if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    expected_positional = [name for name in parameters if name not in keyword_only]
    return positional[: len(expected_positional)] == expected_positional and required <= set(parameters)


def _whole_defects(states: Sequence[SeamState]) -> list[SeamState]:
    """A defect is mended in all of its places or in none: half of a patch may do worse than the host alone."""
    misfits = {state.defect: state.seam for state in states if state.status is SeamStatus.NOT_MENDED}
    return [
        replace(
            state,
            status=SeamStatus.NOT_MENDED,
            expected=f"{misfits[state.defect]!r} to fit as well",
            found="that it does not",
        )
        if state.status is SeamStatus.TAKEN and state.defect in misfits
        else state
        for state in states
    ]


def _fit(seam: str, not_needed: Callable[[], str | None] | None) -> SeamState:
    try:
        reason = not_needed() if not_needed is not None else None
    except Exception as error:  # noqa: BLE001 - the host fits in name only; the state says so
        return _misfit(seam, "a host that answers the patch's probe", f"{type(error).__name__}: {error}")
    if reason is not None:
        return SeamState(seam=seam, status=SeamStatus.NOT_NEEDED, reason=reason)
    return SeamState(seam=seam, status=SeamStatus.TAKEN)


def _misfit(seam: str, expected: str, found: str) -> SeamState:
    return SeamState(seam=seam, status=SeamStatus.DOES_NOT_FIT, expected=expected, found=found)


def _unwrap_descriptor(declared: Any) -> Any:
    return declared.__func__ if isinstance(declared, staticmethod | classmethod) else declared


def _methods(route: BaseRoute) -> set[str]:
    return set(getattr(route, "methods", None) or ())


def _shape(path: str) -> str:
    """A path without the names of its parameters: ``/v1/responses/{id}`` and ``/v1/responses/{response_id}`` agree."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def _index(routes: Sequence[BaseRoute], route: BaseRoute) -> int:
    """Where this very route stands: routes compare equal by content, so ``list.index`` may find another."""
    return next(index for index, candidate in enumerate(routes) if candidate is route)


def _revert_all(reverts: Sequence[Revert]) -> None:
    """Undo in reverse order; one that fails does not keep the rest from being undone, and is raised at the end."""
    failure: Exception | None = None
    for revert in reversed(reverts):
        try:
            revert()
        except Exception as error:  # noqa: BLE001 - raised below
            failure = failure or error
    if failure is not None:
        raise failure
