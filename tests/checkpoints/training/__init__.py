"""How `tests/checkpoints/tiny_vlm` was trained, and how to train another one.

The modules, in the order the data flows:

- `vocabulary`: the closed world (words, colours, cities) and the special tokens
- `tokenizer`: a byte-level BPE in which every word of that world is one token
- `skills`: random prompts with the one right answer, by skill
- `pixels`: synthetic images, cut into the patches that the vision tower reads
- `model`: the Qwen2-VL configuration, its initialisation, loading and saving
- `batches`: examples as padded tensors
- `train`: `python -m tests.checkpoints.training.train OUT`
- `evaluate`: `python -m tests.checkpoints.training.evaluate CHECKPOINT`
- `export_text`: the language half as a text-only checkpoint

Nothing of the project imports this package. It needs torch, transformers,
tokenizers, safetensors and Pillow, which vllm-mlx brings on every platform.
"""
