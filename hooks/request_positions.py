"""The batched multimodal engine gives every request the positions of its own tokens.

Models with multimodal rotary positions (Qwen2-VL to Qwen3.5, GLM-V and others) count an image as few positions, and
remember how many on the language model itself, made for one conversation at a time. The batched engine runs many over
one model. Before 0.6.0 it does not say whose turn it is: a prompt without images gets the positions of an earlier one,
and fails when it is the longer one, with all that follow; while answers are generated, a request with an image and
one without count with the same number. From 0.6.0 on the host passes each request's own number; with these patches
the others remember it as well.

Models that draft tokens get steps from ``install_mtp_mllm``, which ask the model themselves or hand on to the step that
was there; both do so with each request's own number.
"""

from __future__ import annotations

from functools import wraps
from inspect import isfunction
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE = "vllm_mlx.mllm_batch_generator"
GENERATOR = f"{MODULE}:MLLMBatchGenerator"
PREFILL_TEXT = "_run_chunked_text_prefill"
PREFILL_MEDIA = "_run_vision_encoding"
STEP = "_step"
DRAFTING = "install_mtp_mllm"

#: Where a request keeps its number. Of one without it the prompt came from the prefix cache, and holds no image.
_DELTAS = "_responses_rope_deltas"


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    def not_needed() -> str | None:
        from vllm_mlx.mllm_batch_generator import MLLMBatchGenerator

        return "host passes the positions of each request" if _passes_positions(MLLMBatchGenerator) else None

    def patch(
        seam: str, name: str, parameters: tuple[str, ...], replace: Callable[..., Any], owner: str = GENERATOR
    ) -> SymbolPatch:
        return SymbolPatch(
            seam=f"batched positions, {seam}",
            owner=owner,
            name=name,
            parameters=parameters,
            replace=replace,
            remove_when="no supported release leaves positions to the state of the model; from 0.6.0 on the host does not",
            not_needed=not_needed,
            defect="on the batched engine a request may get the token positions of another, and fail or be answered wrong",
        )

    return [
        patch("text", PREFILL_TEXT, ("self", "request", "cache"), start_afresh),
        patch("media", PREFILL_MEDIA, ("self", "request", "cache"), start_afresh),
        patch("generation", STEP, ("self", "input_tokens", "cache"), use_own_positions),
        patch(
            "drafts", DRAFTING, ("batch_gen", "language_model", "num_draft_tokens"), draft_with_own_positions, MODULE
        ),
    ]


def start_afresh(original: Callable[..., Any]) -> Callable[..., Any]:
    """The prefill of one request, which starts without what the model remembers of others."""

    @wraps(original)
    def prefill(self: Any, request: Any, cache: Any = None) -> Any:
        model = self.language_model
        if not _remembers_positions(model):
            return original(self, request, cache)
        _forget(model)
        try:
            logits = original(self, request, cache)
            setattr(request, _DELTAS, model._rope_deltas)  # noqa: SLF001 - the model's memory is what this is about
            return logits
        finally:
            # Steps for drafts that were there before us go on with this number.
            if not isfunction(vars(self).get(STEP)):
                _forget(model)

    return prefill


def use_own_positions(original: Callable[..., Any]) -> Callable[..., Any]:
    """One step of a batch, for which the model remembers the number of each of its requests."""

    @wraps(original)
    def step(self: Any, input_tokens: Any, cache: Any, *args: Any, **kwargs: Any) -> Any:
        import mlx.core as mx

        model = self.language_model
        requests = self.active_batch.requests if self.active_batch is not None else []
        if not _remembers_positions(model) or len(requests) != input_tokens.shape[0]:
            return original(self, input_tokens, cache, *args, **kwargs)
        deltas = [getattr(request, _DELTAS, None) for request in requests]
        if all(each is None for each in deltas):
            # Text counts as it is already. Or we have been disabled, and this step has outlived us.
            return original(self, input_tokens, cache, *args, **kwargs)
        model._rope_deltas = mx.concatenate([_none() if each is None else each for each in deltas])  # noqa: SLF001
        try:
            return original(self, input_tokens, cache, *args, **kwargs)
        finally:
            _forget(model)

    return step


def draft_with_own_positions(original: Callable[..., None]) -> Callable[..., None]:
    """The installation of steps that draft tokens, which replaces those of one generator."""

    @wraps(original)
    def install(batch_gen: Any, *args: Any, **kwargs: Any) -> None:
        original(batch_gen, *args, **kwargs)
        # The function of an instance, which is given no self.
        drafting = vars(batch_gen).get(STEP)
        if isfunction(drafting):
            step = use_own_positions(lambda self, *args, **kwargs: drafting(*args, **kwargs))
            setattr(batch_gen, STEP, MethodType(step, batch_gen))

    return install


def _remembers_positions(model: Any) -> bool:
    return hasattr(model, "_rope_deltas") and hasattr(model, "_position_ids")


def _forget(model: Any) -> None:
    """The state in which the model counts text as it is, from the beginning or from where a cache ends."""
    model._position_ids = None  # noqa: SLF001
    model._rope_deltas = _none()  # noqa: SLF001


def _none() -> Any:
    import mlx.core as mx

    return mx.zeros((1, 1), dtype=mx.int32)


class _AskedError(Exception):
    """Ends a trial when the model is asked."""


def _passes_positions(generator_class: Any) -> bool:
    """Whether a prompt that is prefilled without images comes with its request's own number."""
    passed: dict[str, Any] = {}

    def language_model(tokens: Any, cache: Any = None, **arguments: Any) -> None:
        passed.update(arguments)
        raise _AskedError

    generator = generator_class.__new__(generator_class)
    vars(generator).update(language_model=language_model, prefill_step_size=8, prefix_cache=None, _prefill_progress={})
    request = SimpleNamespace(
        request_id="", input_ids=SimpleNamespace(ndim=2, shape=(1, 2)), rope_deltas=0, prompt_position_ids=None
    )
    try:
        getattr(generator, PREFILL_TEXT)(request, [])
    except _AskedError:
        return "rope_deltas" in passed
    raise RuntimeError(f"{PREFILL_TEXT} did not ask the language model")
