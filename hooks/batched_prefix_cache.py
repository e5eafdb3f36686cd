"""The batched multimodal engine's KV prefix cache serves text alone.

Its key is token ids, and to those all images of a size are alike. Before 0.6.0 the host keeps and looks up requests
with images as well, so that a second screenshot is answered from the keys and values of the first (0.3.0 does so
with every prompt, later releases from 128 tokens on). Where only the text in front of an image is found in the cache,
the host means to notice that an image is left to encode, but asks the model's configuration for a name that today's
mlx-vlm does not use any more. From 0.6.0 on it uses the cache for text alone, and so do the others with this patch.
"""

from __future__ import annotations

from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FETCH = "_process_prompts"
STORE = "_maybe_store_prefix_cache"


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    def not_needed() -> str | None:
        from vllm_mlx.mllm_batch_generator import MLLMBatchGenerator

        # Fetching cannot be tried without a model, but a host that stores no images has none to find.
        return None if _stores_images(MLLMBatchGenerator) else "host uses this cache for text alone"

    def patch(seam: str, name: str, parameters: tuple[str, ...], replace: Callable[..., Any]) -> SymbolPatch:
        return SymbolPatch(
            seam=f"batched prefix cache, {seam}",
            owner="vllm_mlx.mllm_batch_generator:MLLMBatchGenerator",
            name=name,
            parameters=parameters,
            replace=replace,
            remove_when="no supported release uses this cache for requests with media; from 0.6.0 on the host does not",
            not_needed=not_needed,
            defect="on the batched engine a request with an image may be answered from the cache of another image",
        )

    return [
        patch("fetch", FETCH, ("self", "requests"), fetch_text_only),
        patch("store", STORE, ("self", "batch", "end_indices"), store_text_only),
    ]


def fetch_text_only(original: Callable[..., Any]) -> Callable[..., Any]:
    """The prefill of a batch, for which the cache has nothing that a request with media could use."""

    @wraps(original)
    def process_prompts(self: Any, requests: list[Any]) -> Any:
        cache = self.prefix_cache
        with_media = [request for request in requests if _has_media(request)]
        if cache is None or not with_media:
            return original(self, requests)
        self.prefix_cache = _TextCache(cache, with_media)
        try:
            return original(self, requests)
        finally:
            self.prefix_cache = cache

    return process_prompts


def store_text_only(original: Callable[..., None]) -> Callable[..., None]:
    """The storing of finished requests, without those that have media."""

    @wraps(original)
    def store(self: Any, batch: Any, end_indices: Sequence[int]) -> None:
        original(self, batch, [index for index in end_indices if not _has_media(batch.requests[index])])

    return store


class _TextCache:
    """The cache, as the requests of one batch may use it."""

    def __init__(self, cache: Any, with_media: Sequence[Any]) -> None:
        self._cache = cache
        self._with_media = with_media

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def fetch(self, tokens: list[int]) -> tuple[Any, list[int]]:
        # The host asks with the ids of one request, less a suffix that every prompt has; which request is not said.
        # Text that is the beginning of another request's may miss, which costs time and nothing else.
        if any(_token_ids(request)[: len(tokens)] == tokens for request in self._with_media):
            return None, tokens
        found: tuple[Any, list[int]] = self._cache.fetch(tokens)
        return found


def _has_media(request: Any) -> bool:
    return bool(request.images or request.videos or request.audio)


def _token_ids(request: Any) -> list[int]:
    """Known once the request has been prepared, which is before the cache is asked."""
    ids: list[int] = [] if request.input_ids is None else request.input_ids.reshape(-1).tolist()
    return ids


def _stores_images(generator_class: type) -> bool:
    """Whether a finished request with an image would be stored: whether the host takes its KV state out of the batch."""
    taken: list[int] = []

    def extract_cache(index: int) -> list[Any]:
        taken.append(index)
        return []

    ids = SimpleNamespace(reshape=lambda shape: SimpleNamespace(tolist=lambda: [1, 2]))
    request = SimpleNamespace(
        request_id="", input_ids=ids, is_text_only=False, images=["image"], videos=None, audio=None
    )
    batch = SimpleNamespace(requests=[request], num_tokens=[0], extract_cache=extract_cache)
    cache = SimpleNamespace(store=lambda tokens, cache, **options: True)
    generator = SimpleNamespace(
        prefix_cache=cache, _think_suffix_len=0, _store_prefix_snapshot=lambda *args, **options: True
    )
    getattr(generator_class, STORE)(generator, batch, [0])
    return bool(taken)
