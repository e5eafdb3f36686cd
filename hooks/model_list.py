"""``GET /v1/models`` tells of each model how long its context may be and whether it sees.

The host lists names alone, and a client that has to know more, such as Codex, can only be told by hand. The configuration
of the model has it, whether the model is loaded or not: ``client-config`` reads it here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fastapi import Depends

from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import RoutePatch

logger = logging.getLogger(__name__)

#: Where models that see keep what is about text.
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length")
_SCALINGS = ("rope_scaling", "rope_parameters")
#: The owner of chat models, as the host has it; embeddings and the like have others.
_CHAT_OWNER = "vllm-mlx"


@hookimpl(trylast=True)
def responses_host_patches(host: Any) -> list[RoutePatch]:
    return [
        RoutePatch(
            seam="list of models",
            app=host.app,
            path="/v1/models",
            method="GET",
            endpoint=_list_models(host.server),
            dependencies=[Depends(host.server.verify_api_key)],
            remove_when="the host lists the context window of a model, and whether it takes images",
        )
    ]


def _list_models(server: ModuleType) -> Callable[[], Awaitable[Any]]:
    async def list_models() -> Any:
        """List available models."""
        listed = (await server.list_models()).model_dump()
        for model in listed["data"]:
            if model["owned_by"] == _CHAT_OWNER:
                try:
                    model.update(await asyncio.to_thread(_details, server, model["id"]))
                except Exception:
                    # Better a list of names alone than none: clients ask for it before they send anything.
                    logger.exception("no more than the name of %s can be told", model["id"])
        return listed

    return list_models


def _details(server: ModuleType, name: str) -> dict[str, Any]:
    """``max_model_len``, where it can be told, and ``input_modalities``."""
    source, engine, forced = _served(server, name)
    config = _config(source)
    sees = bool(engine.is_mllm if engine is not None else forced or server.is_mllm_model(source))
    details: dict[str, Any] = {"input_modalities": ["text", "image"] if sees else ["text"]}
    # The engine forgets what goes beyond its cache.
    lengths = [length for length in (context_window(config), _cache_limit(engine)) if length]
    if lengths:
        details["max_model_len"] = min(lengths)
    return details


def _served(server: ModuleType, name: str) -> tuple[str, Any, bool]:
    """Where a model comes from, its engine if it is loaded, and whether it is to see whatever its configuration says."""
    manager = server._model_manager  # noqa: SLF001 - there is no other way to it
    if manager is None:
        return server._model_path or name, server._engine, server._force_mllm_model  # noqa: SLF001
    entry, loaded = manager._registry[name], manager._loaded.get(name)  # noqa: SLF001
    forced = manager._defaults.force_mllm if entry.force_mllm is None else entry.force_mllm  # noqa: SLF001
    return entry.source, loaded and loaded.engine, forced


def _config(source: str) -> Mapping[str, Any]:
    """The configuration of a model that is a folder, or in the cache of downloads; empty where there is none."""
    try:
        path = Path(source, "config.json")
        if not path.is_file():
            from huggingface_hub import try_to_load_from_cache

            cached = try_to_load_from_cache(source, "config.json")
            if not isinstance(cached, str):
                return {}
            path = Path(cached)
        config = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        logger.debug("the configuration of %s cannot be read: %s", source, error)
        return {}
    return config if isinstance(config, dict) else {}


def context_window(config: Mapping[str, Any]) -> int | None:
    """How many tokens a model may have in its context, by its configuration, stretched positions included."""
    for name in _TEXT_CONFIGS:
        if isinstance(config.get(name), dict):
            config = {**config, **config[name]}
    length = next((config[name] for name in _LENGTHS if isinstance(config.get(name), int)), None)
    scaling: Mapping[str, Any] = next((config[name] for name in _SCALINGS if isinstance(config.get(name), dict)), {})
    original, factor = scaling.get("original_max_position_embeddings"), scaling.get("factor")
    if isinstance(original, int) and isinstance(factor, int | float):
        length = max(length or 0, int(original * factor))
    return length


def _cache_limit(engine: Any) -> int | None:
    """``--max-kv-size``, which each kind of engine keeps elsewhere."""
    scheduler = getattr(engine, "_scheduler_config", None)
    return getattr(engine, "_max_kv_size", None) or getattr(scheduler, "max_kv_size", None)
