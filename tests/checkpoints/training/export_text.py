"""Write the language half of a trained checkpoint as a text-only one, which needs no training of its own.

    python -m tests.checkpoints.training.export_text CHECKPOINT OUT

Without images Qwen2-VL's three rotary axes count alike, which is plain rotary embedding. The result is a `llama` model
with attention biases and not a `qwen2` one: for that model type transformers puts its own pre-tokenizer in place of
ours, which splits numbers into digits and spoils the answers.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

COPIED_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
VISION_KEYS = (
    "vision_config",
    "rope_scaling",
    "image_token_id",
    "video_token_id",
    "vision_start_token_id",
    "vision_end_token_id",
)


def export_text(checkpoint: Path, output: Path) -> None:
    """Write the text-only checkpoint to a new directory."""
    output.mkdir(parents=True)
    config: dict[str, Any] = json.loads((checkpoint / "config.json").read_text("utf-8"))
    for key in VISION_KEYS:
        del config[key]
    config |= {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": True}
    (output / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    stored = load_file(checkpoint / "model.safetensors")
    tensors = {name: tensor for name, tensor in stored.items() if not name.startswith("visual.")}
    for layer in range(config["num_hidden_layers"]):
        # llama has a bias here as well; zero is none.
        bias = np.zeros(config["hidden_size"], np.float32)
        tensors[f"model.layers.{layer}.self_attn.o_proj.bias"] = bias
    save_file(tensors, output / "model.safetensors", metadata={"format": "pt"})
    for name in COPIED_FILES:
        shutil.copyfile(checkpoint / name, output / name)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path, help="a directory that does not exist yet")
    arguments = parser.parse_args()
    export_text(arguments.checkpoint, arguments.output)


if __name__ == "__main__":
    main()
