"""The model: a Qwen2-VL of about 1.2 million parameters."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLForConditionalGeneration

from tests.checkpoints.training.pixels import IMAGE_AREA, MERGE, PATCH, TEMPORAL
from tests.checkpoints.training.vocabulary import (
    END_ID,
    IMAGE_ID,
    PAD_ID,
    VIDEO_ID,
    VISION_END_ID,
    VISION_START_ID,
)

HIDDEN = 128
LAYERS = 4
HEADS = 4
KEY_VALUE_HEADS = 2
FEED_FORWARD = 384
VISION_HIDDEN = 64
CONTEXT = 32768


def _configuration(vocabulary_size: int) -> dict[str, Any]:
    rotary = HIDDEN // HEADS // 2
    time = rotary // 4
    height = (rotary - time) // 2
    return {
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "model_type": "qwen2_vl",
        "vocab_size": vocabulary_size,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "intermediate_size": FEED_FORWARD,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "rope_scaling": {
            "type": "mrope",
            "mrope_section": [time, height, rotary - time - height],
        },
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "bos_token_id": PAD_ID,
        "eos_token_id": END_ID,
        "pad_token_id": PAD_ID,
        "image_token_id": IMAGE_ID,
        "video_token_id": VIDEO_ID,
        "vision_start_token_id": VISION_START_ID,
        "vision_end_token_id": VISION_END_ID,
        "use_sliding_window": False,
        "sliding_window": CONTEXT,
        "vision_config": {
            "model_type": "qwen2_vl",
            "depth": 1,
            "embed_dim": VISION_HIDDEN,
            "hidden_size": HIDDEN,
            "num_heads": 2,
            "mlp_ratio": 2,
            "in_channels": 3,
            "in_chans": 3,
            "patch_size": PATCH,
            "spatial_patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": TEMPORAL,
        },
    }


_IMAGE_PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2VLProcessor",
    "patch_size": PATCH,
    "temporal_patch_size": TEMPORAL,
    "merge_size": MERGE,
    "min_pixels": IMAGE_AREA,
    "max_pixels": IMAGE_AREA,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "do_rescale": True,
    "do_normalize": True,
    "do_convert_rgb": True,
    "rescale_factor": 1 / 255,
    "do_resize": True,
}
_GENERATION = {
    "eos_token_id": [END_ID],
    "pad_token_id": PAD_ID,
    "do_sample": False,
    "temperature": 0.0,
}


def write_configuration(directory: Path, vocabulary_size: int) -> None:
    """Write every JSON file beside the tokenizer's."""
    padded = -(-vocabulary_size // 64) * 64
    for name, content in (
        ("config.json", _configuration(padded)),
        ("preprocessor_config.json", _IMAGE_PROCESSOR),
        ("generation_config.json", _GENERATION),
    ):
        (directory / name).write_text(json.dumps(content, indent=1) + "\n", "utf-8")


class TinyVisionModel(nn.Module):
    """Qwen2-VL with the forward pass that training needs."""

    def __init__(self, directory: Path) -> None:
        """Build the model that config.json describes, with fresh weights."""
        super().__init__()
        config = AutoConfig.from_pretrained(directory)
        config._attn_implementation = "sdpa"
        self.inner = Qwen2VLForConditionalGeneration(config)
        for name, weight in self.inner.named_parameters():
            _initialise(name, weight)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        wanted: Tensor,
        patches: Tensor | None = None,
        grids: Tensor | None = None,
    ) -> Tensor:
        """The logits of the wanted places only; the others are not worth the time."""
        core = self.inner.model
        embedded = core.get_input_embeddings()(tokens)
        if patches is not None:
            seen = core.visual(patches, grid_thw=grids)
            seen = seen if isinstance(seen, Tensor) else seen.pooler_output
            places = (tokens == IMAGE_ID)[..., None].expand_as(embedded)
            embedded = embedded.masked_scatter(places, seen)
        hidden = core.language_model(inputs_embeds=embedded, position_ids=positions, use_cache=False).last_hidden_state
        logits: Tensor = self.inner.lm_head(hidden[wanted])
        return logits

    def save_weights(self, directory: Path) -> None:
        """Write model.safetensors with the names that mlx-vlm expects."""
        tensors = {
            _checkpoint_name(name): tensor.detach().to(torch.float32).contiguous().clone()
            for name, tensor in self.inner.state_dict().items()
            if name != "lm_head.weight"
        }
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})

    def load_weights(self, directory: Path) -> None:
        """Read what `save_weights` wrote; every weight must be there."""
        stored = load_file(directory / "model.safetensors")
        own = self.inner.state_dict()
        for name, tensor in own.items():
            if name != "lm_head.weight":
                tensor.copy_(stored[_checkpoint_name(name)])


def _checkpoint_name(name: str) -> str:
    return name.replace("model.language_model.", "model.").replace("model.visual.", "visual.")


def _initialise(name: str, weight: nn.Parameter) -> None:
    """Scale by fan-in: the library's fixed 0.02 is far too small for so narrow a model."""
    if weight.ndim < 2:
        return
    if "embed_tokens" in name:
        nn.init.normal_(weight, std=0.1)
        return
    scale = weight[0].numel() ** -0.5
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        scale *= (2 * LAYERS) ** -0.5
    nn.init.normal_(weight, std=scale)
