"""A multimodal model answers requests without media also where the host builds the wrong text model for it.

The simple engine serves those requests with a text model built from the weights of the multimodal one. Before 0.6.0
the host builds that of Qwen3.5 for every architecture; of Qwen2-VL, Qwen2.5-VL and others it cannot run a single
token, and all requests without media fail. A host without a text model uses the multimodal one, as it does from 0.6.0
on for these architectures.

0.3.0 has no right text model either for those that keep more than keys and values, such as Qwen3.5 itself: under a
system prompt that it has met before it goes on from the state of the request that came last.
"""

from __future__ import annotations

import json
import logging
import tempfile
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

BUILD = "build_text_model"


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    def not_needed() -> str | None:
        from vllm_mlx import text_model_from_vlm

        builds_it = _builds_for_any_architecture(getattr(text_model_from_vlm, BUILD))
        return None if builds_it else "host builds text models for architectures that it knows"

    return [
        SymbolPatch(
            seam="text model of a multimodal model",
            owner="vllm_mlx.text_model_from_vlm",
            name=BUILD,
            parameters=("vlm_model", "model_path"),
            replace=none_that_cannot_run,
            remove_when="no supported release builds a text model for every architecture; from 0.6.0 on the host asks",
            not_needed=not_needed,
            defect="on the simple engine some multimodal models fail at every request without media",
        )
    ]


def none_that_cannot_run(original: Callable[..., Any]) -> Callable[..., Any]:
    """The host's text model, tried with one token; ``None`` in its place when it fails, or cannot be started anew."""

    @wraps(original)
    def build_text_model(*args: Any, **options: Any) -> Any:
        text_model = original(*args, **options)
        if text_model is None:
            return None
        try:
            cache = _run_one_token(text_model)
        except Exception as error:  # noqa: BLE001 - whatever keeps it from running would fail every request
            logger.warning(
                "requests without media go to the multimodal model: the text model built of it fails (%s)", error
            )
            return None
        if not _host_can_keep(cache):
            logger.warning(
                "requests without media go to the multimodal model: this host mixes up what models like it remember"
            )
            return None
        return text_model

    return build_text_model


def _run_one_token(text_model: Any) -> list[Any]:
    """The cache, with the token. Raises when shapes do not fit. Nothing is computed: arrays are lazy."""
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache

    cache: list[Any] = make_prompt_cache(text_model)
    text_model(mx.array([[0]]), cache=cache)
    return cache


def _host_can_keep(cache: list[Any]) -> bool:
    """Whether the engine can go back to this state of a model. From 0.4.0 on it asks what kind of cache it has."""
    from mlx_lm.models.cache import KVCache
    from vllm_mlx.engine.simple import SimpleEngine

    return hasattr(SimpleEngine, "_probe_system_kv_cache_support") or all(isinstance(each, KVCache) for each in cache)


class _AskedForWeightsError(BaseException):
    """Ends a trial; not an ``Exception``, which the host would log as a failure."""


class _Weightless:
    """A multimodal model that does not get as far as giving its weights."""

    @property
    def language_model(self) -> Any:
        raise _AskedForWeightsError


def _builds_for_any_architecture(build_text_model: Callable[..., Any]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        # Later hosts log this name, so it says what it is.
        Path(folder, "config.json").write_text(json.dumps({"model_type": "probe-of-the-responses-plugin"}))
        try:
            build_text_model(_Weightless(), folder)
        except _AskedForWeightsError:
            return True
    return False
