"""The values of the plugin's own command-line options."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from responses_plugin.protocol.dialects import DIALECTS, OPENAI

if TYPE_CHECKING:
    from argparse import Namespace

#: Where argparse keeps the value of a field: ``keepalive_seconds`` is ``args.responses_keepalive_seconds``.
OPTION_PREFIX = "responses_"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an operator can choose. Raises ``ValueError`` for a value that cannot be meant."""

    #: Seconds of silence in a stream after which a ``keepalive`` event is sent; 0 sends none.
    keepalive_seconds: float = 10.0
    #: How many responses are stored; the oldest goes first.
    max_stored_responses: int = 1000
    #: How many bytes the stored responses may take together; the oldest goes first.
    max_stored_bytes: int = 1 << 30
    #: How many bytes a request may have; screenshots in a long history add up.
    max_body_bytes: int = 1 << 28
    #: Which specification the answers follow where they contradict each other, one of ``DIALECTS``.
    dialect: str = OPENAI.name
    #: Log each hook call with its arguments and result.
    trace_hooks: bool = False

    def __post_init__(self) -> None:
        for name in ("keepalive_seconds", "max_stored_responses", "max_stored_bytes", "max_body_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} cannot be negative, got {getattr(self, name)}")
        if self.dialect not in DIALECTS:
            raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {self.dialect!r}")

    @classmethod
    def from_args(cls, args: Namespace) -> Settings:
        """Settings from a parsed command line; an option that is missing there keeps its default."""
        given = {field.name: getattr(args, OPTION_PREFIX + field.name, None) for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})
