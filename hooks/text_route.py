"""A multimodal model answers requests without media also where the host builds the wrong text model for it.

The simple engine serves those requests with a text model built from the weights of the multimodal one. Before 0.6.0
the host builds that of Qwen3.5 for every architecture; of Qwen2-VL, Qwen2.5-VL and others it cannot run a single
token, and all requests without media fail. A host without a text model uses the multimodal one, as it does from 0.6.0
on for these architectures.
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
    """The host's text model, tried with one token; ``None`` in its place when it fails."""

    @wraps(original)
    def build_text_model(vlm_model: Any, model_path: Any) -> Any:
        text_model = original(vlm_model, model_path)
        if text_model is None:
            return None
        try:
            _run_one_token(text_model)
        except Exception as error:  # noqa: BLE001 - whatever keeps it from running would fail every request
            logger.warning(
                "requests without media go to the multimodal model: the text model built of it fails (%s)", error
            )
            return None
        return text_model

    return build_text_model


def _run_one_token(text_model: Any) -> None:
    """Raises when shapes do not fit. Nothing is computed: arrays are lazy, and the result is not looked at."""
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache

    text_model(mx.array([[0]]), cache=make_prompt_cache(text_model))


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
