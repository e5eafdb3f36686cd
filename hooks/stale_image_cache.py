"""A repeated request with images starts from an empty KV cache, as the host means it to.

In the host's ``MLXMultimodalLM``, ``stream_chat`` and ``generate`` take the KV cache of an earlier request with the
same images and prompt from ``MLLMPrefixCacheManager.fetch_cache``, and then prefill the whole prompt into it once
more. Positions are computed for one prompt while the cache says that another lies before it: models with multimodal
rotary positions fail with a broadcast error, others answer from two copies of the prompt. ``chat`` has no such fault,
it takes a fresh cache on a hit, and so do the other two with this patch. All releases up to 0.6.0 are affected, and
``/v1/chat/completions`` is mended with ``/v1/responses``.

Nothing of a hit is worth keeping. It holds no vision embeddings, its key ignores the order of images, so that
reusing the keys and values would mix up two screenshots, and only a repetition of the whole prompt ever hits: the
next turn of a conversation never does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch

FetchCache = Callable[..., tuple[list[Any] | None, bool]]


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    return [
        SymbolPatch(
            seam="MLLM image cache",
            owner="vllm_mlx.mllm_cache:MLLMPrefixCacheManager",
            name="fetch_cache",
            parameters=("self", "images", "prompt"),
            replace=without_kv_cache,
            remove_when="MLXMultimodalLM.stream_chat no longer prefills into the cache that fetch_cache returned",
            not_needed=_hands_out_nothing,
            defect="on the simple engine a repeated request with images fails, or is answered from two copies of its prompt",
        )
    ]


def without_kv_cache(original: FetchCache) -> FetchCache:
    """Look up as before, so that statistics, recency and "stored already" stay right, but hand out no KV cache."""

    @wraps(original)
    def fetch_cache(self: Any, images: list[str], prompt: str) -> tuple[None, bool]:
        _, hit = original(self, images, prompt)
        return None, hit

    return fetch_cache


def _hands_out_nothing() -> str | None:
    """The reason to leave the host alone: it does not return what it stored."""
    from vllm_mlx.mllm_cache import MLLMPrefixCacheManager

    manager = MLLMPrefixCacheManager(max_entries=1)
    manager.store_cache(["image"], "prompt", [object()], 1)
    stored, _ = manager.fetch_cache(["image"], "prompt")
    return "host no longer hands out the KV cache of an earlier request" if stored is None else None
