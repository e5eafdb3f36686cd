"""Counts how often the host lends its engine, and how often it gets it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import vllm_mlx.server as host_server


@dataclass
class Leases:
    """Stands between the host and its own two functions; ``globals`` is for :class:`~tests.host.scripted.ScriptedHost`."""

    acquired: int = 0
    released: int = 0
    globals: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        acquire, release = host_server._acquire_default_engine, host_server._release_default_engine

        async def counted_acquire(**options: Any) -> Any:
            engine = await acquire(**options)
            self.acquired += 1
            return engine

        async def counted_release(**options: Any) -> None:
            self.released += 1
            await release(**options)

        self.globals = {"_acquire_default_engine": counted_acquire, "_release_default_engine": counted_release}

    @property
    def counts(self) -> tuple[int, int]:
        """How often it was acquired, and released."""
        return self.acquired, self.released
