"""Run a module of the host and count what its model prefills.

``python -m tests.benchmark.prefill_counter FILE MODULE ARGUMENTS…`` appends a line to the file for each forward pass
over more than one token a row: how many tokens it reads. Passes over one token are generation; the last token of a
prompt, which some engines feed on its own, is taken for that as well. The host's home directory is a new one beside the
file: the batched engine keeps its prefix cache there, and a second run would find that of the first.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlx_lm.models.llama import LlamaModel
from mlx_vlm.models.qwen2_vl.language import Qwen2Model

from tests.host import serve_on_cpu

if TYPE_CHECKING:
    from collections.abc import Callable

#: The stack of layers of the tiny text-only model, and that of the one that sees: embeddings of images come by here.
_COUNTED = (LlamaModel, Qwen2Model)


def counting(forward: Callable[..., Any], file: Path) -> Callable[..., Any]:
    """The same forward pass, on record. Images come as embeddings, which the two models name differently."""

    @functools.wraps(forward)
    def call(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        embeddings = kwargs.get("inputs_embeds", kwargs.get("input_embeddings"))
        rows, tokens = (inputs if embeddings is None else embeddings).shape[:2]
        if tokens > 1:
            with file.open("a", encoding="ascii") as record:
                record.write(f"{rows * tokens}\n")
        return forward(model, inputs, *args, **kwargs)

    return call


def prefilled(file: Path) -> int:
    """How many tokens have been prefilled so far."""
    return sum(map(int, file.read_text(encoding="ascii").split())) if file.exists() else 0


def main() -> None:
    """Count, and become the module."""
    file = Path(sys.argv.pop(1)).resolve()
    home = file.with_name(f"{file.name}-home")
    home.mkdir()
    os.environ["HOME"] = str(home)
    for model in _COUNTED:
        model.__call__ = counting(model.__call__, file)
    serve_on_cpu.main()


if __name__ == "__main__":
    main()
