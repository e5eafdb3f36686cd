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


def apply_token_bitmask(logits: Any, mask: Any) -> Any:
    """What ``llguidance.mlx.apply_token_bitmask`` does: minus infinity for every token whose bit is not set."""
    rows = mx.atleast_2d(logits)
    words = mx.atleast_2d(mx.array(mask))
    bits = (words[:, :, None] >> mx.arange(32)) & 1
    allowed = bits.reshape(words.shape[0], -1)[:, : rows.shape[1]]
    missing = rows.shape[1] - allowed.shape[1]
    allowed = mx.pad(allowed, [(0, 0), (0, max(0, missing))])
    return mx.where(allowed == 1, rows, -float("inf"))


def main() -> None:
    """Replace the kernel if need be, and become the module."""
    if not mx.metal.is_available():
        llguidance.mlx.apply_token_bitmask = apply_token_bitmask
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
