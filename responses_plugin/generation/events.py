"""Generation events: what the engine emitted, freed of how the host wraps it."""

from __future__ import annotations

from dataclasses import dataclass

from responses_plugin.protocol.response import Usage


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model begins a tool call; ``name`` is as the model wrote it."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments of the call that was started last."""

    fragment: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """The call that was started last is complete."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The model stopped. ``truncated`` when the token budget ran out rather than the model being done."""

    usage: Usage
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """Generation broke off."""

    message: str
    code: str = "server_error"


GenerationEvent = ReasoningDelta | TextDelta | CallStarted | CallArguments | CallFinished | Finished | Failed
