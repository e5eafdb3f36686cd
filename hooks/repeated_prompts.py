"""The batched text engine reads a prompt that its prefix cache knows to the end as it is, and not its last token twice.

Generation starts from a token, so for a prompt without any left to read the scheduler reads the last one once more. The
keys and values that it found hold that token already: the model answers from a prompt that ends with it twice, as
the tiny model does with the end of the tool result that it was to answer from. It is found whole when the same prompt
comes again, and once the answer to it was stored. From 0.5.0 on the host prefills such a prompt anew, and so do the
others with this patch.
"""

from __future__ import annotations

import contextlib
from collections import deque
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import SymbolPatch

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEDULE = "_schedule_waiting"

#: The host's words for a hit that covers the whole prompt, from the cache whose entries do. Others end before it.
_WHOLE_HITS = ("exact", "supersequence")


@hookimpl(trylast=True)
def responses_host_patches() -> list[SymbolPatch]:
    return [
        SymbolPatch(
            seam="batched repeated prompts",
            owner="vllm_mlx.scheduler:Scheduler",
            name=SCHEDULE,
            parameters=("self",),
            replace=prefill_whole_hits,
            remove_when="no supported release reads the last token twice; from 0.5.0 on the host does not",
            not_needed=lambda: None if _reads_last_token_twice() else "host prefills a repeated prompt anew",
            defect="on the batched engine a prompt that comes again may be answered as if its last token stood there twice",
        )
    ]


def prefill_whole_hits(original: Callable[..., Any]) -> Callable[..., Any]:
    """The start of the requests that wait, for which a prompt that was found whole counts as not found."""

    @wraps(original)
    def schedule_waiting(self: Any) -> Any:
        # A copy: others may be added meanwhile.
        for request in list(self.waiting):
            if request.prompt_cache and not request.remaining_tokens and request.cache_hit_type in _WHOLE_HITS:
                request.prompt_cache = None
                request.cached_tokens = 0
                request.remaining_tokens = request.prompt_token_ids
        return original(self)

    return schedule_waiting


class _InsertedError(BaseException):
    """Ends a trial; not an ``Exception``, after which the host would try again."""


def _reads_last_token_twice() -> bool:
    """By what the scheduler has the engine read of a prompt of two tokens that was found whole."""
    from vllm_mlx.request import Request, SamplingParams
    from vllm_mlx.scheduler import Scheduler

    request = Request("probe", [1, 2], SamplingParams(), prompt_token_ids=[1, 2], num_prompt_tokens=2)
    request.prompt_cache, request.cached_tokens, request.remaining_tokens = [object()], 2, []
    request.cache_hit_type = "exact"
    inserted: list[list[int]] = []

    def insert(prompts: list[list[int]], **options: Any) -> None:
        inserted.extend(prompts)
        raise _InsertedError

    scheduler = SimpleNamespace(
        waiting=deque([request]),
        running={},
        config=SimpleNamespace(max_num_seqs=1, max_kv_size=0),
        batch_generator=SimpleNamespace(insert=insert),
        _ssd_tier=None,
        _bounded_kv_size=lambda: None,
        _ensure_batch_generator=lambda sampling_params: None,
        _restored_cache_matches_kv_bound=lambda cache: True,
        _validate_cache=lambda cache: True,
    )
    with contextlib.suppress(_InsertedError):
        getattr(Scheduler, SCHEDULE)(scheduler)
    return inserted == [[2]]
