"""A second architecture: Qwen3.5, with the tiny model's vocabulary and template, and weights that were never trained.

The simple engine has a text model of its own for it on every release, which it has not for Qwen2-VL. What such a model
says means nothing; the tokens that it is given tell what reached it.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_vlm.models.qwen3_5 import Model, ModelConfig

if TYPE_CHECKING:
    from pathlib import Path

COPIED_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "preprocessor_config.json",
)
#: What both architectures call alike.
SHARED_KEYS = (
    "vocab_size",
    "eos_token_id",
    "image_token_id",
    "video_token_id",
    "vision_start_token_id",
    "vision_end_token_id",
)
#: One layer of each kind: linear attention and full attention.
TEXT: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "full_attention_interval": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 1,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
    "rope_parameters": {
        "type": "default",
        "mrope_section": [2, 1, 1],
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.25,
    },
}
VISION: dict[str, Any] = {
    "model_type": "qwen3_5",
    "depth": 1,
    "hidden_size": 64,
    "intermediate_size": 64,
    "out_hidden_size": 64,
    "num_heads": 2,
    "num_position_embeddings": 16,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
    "deepstack_visual_indexes": [],
}


def write_hybrid(checkpoint: Path, output: Path) -> None:
    """Write the untrained checkpoint to a new directory, the same weights each time."""
    output.mkdir(parents=True)
    trained: dict[str, Any] = json.loads((checkpoint / "config.json").read_text("utf-8"))
    shared = {key: trained[key] for key in SHARED_KEYS}
    text = {**TEXT, "vocab_size": trained["vocab_size"], "eos_token_id": trained["eos_token_id"]}
    config = {
        "model_type": "qwen3_5",
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        **shared,
        "text_config": text,
        "vision_config": VISION,
    }
    (output / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    mx.random.seed(0)
    weights = dict(tree_flatten(Model(ModelConfig.from_dict(config)).parameters()))
    mx.save_safetensors(str(output / "model.safetensors"), weights, metadata={"format": "mlx"})
    for name in COPIED_FILES:
        shutil.copyfile(checkpoint / name, output / name)
