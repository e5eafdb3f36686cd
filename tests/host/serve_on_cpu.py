"""Run a module of the host on a machine without Metal: ``python -m tests.host.serve_on_cpu MODULE ARGUMENTS…``.

Everything in the host runs on the CPU as well, except for one thing: constrained decoding applies llguidance's token
mask with a Metal kernel. Where there is no Metal, the same is done here with plain array operations.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

import llguidance.mlx
import mlx.core as mx
import numpy as np


def apply_token_bitmask(logits: Any, mask: Any) -> Any:
    """What ``llguidance.mlx.apply_token_bitmask`` does: minus infinity for every token whose bit is not set."""
    rows = logits if logits.ndim == 2 else logits[None]
    words = np.atleast_2d(mask).view(np.uint32)
    bits = (words[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    allowed = np.zeros(rows.shape, bool)
    known = bits.reshape(len(words), -1)[:, : rows.shape[1]]
    allowed[:, : known.shape[1]] = known
    return mx.where(mx.array(allowed), rows, -float("inf"))


def main() -> None:
    """Replace the kernel if need be, and become the module."""
    if not mx.metal.is_available():
        llguidance.mlx.apply_token_bitmask = apply_token_bitmask  # type: ignore[assignment] # ours takes Any
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
