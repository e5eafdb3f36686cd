"""The host's own lazy loading of models, with scripted engines that load when the test says so."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from vllm_mlx.lifecycle import ModelSpec, ResidencyManager
from vllm_mlx.model_registry import (
    ContentionPolicy,
    ModelManager,
    RegisteredModel,
    RegistryManagerConfig,
    RegistryServeDefaults,
)
from vllm_mlx.utils.download import DownloadConfig

from tests.host.scripted import Gate, Script, ScriptedEngine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY = "default"


class LoadedEngine(ScriptedEngine):
    """A scripted engine that takes as long to load as the gate is shut."""

    def __init__(self, scripts: Sequence[Script], loading: Gate | None = None, **options: Any) -> None:
        super().__init__(scripts, **options)
        self._loading = loading
        self.stopped = False

    async def start(self) -> None:
        """Load."""
        if self._loading is not None:
            await self._loading.wait()
        await super().start()

    async def stop(self) -> None:
        """Unload."""
        self.stopped = True
        await super().stop()


def lazy_globals(engines: Sequence[ScriptedEngine], *, idle_seconds: float = 0) -> dict[str, Any]:
    """What ``--lazy-load-model`` sets up: each load takes the next of these engines."""
    left = list(engines)

    async def load(spec: ModelSpec) -> ScriptedEngine:
        return left.pop(0)

    residency = ResidencyManager(load, auto_unload_idle_seconds=idle_seconds)
    residency.register_model(ModelSpec(model_key=KEY, model_name="scripted"))
    return {"_engine": None, "_residency_manager": residency, "_default_model_key": KEY}


def registry_globals(
    engines: Mapping[str, ScriptedEngine], *, room_for: int | None = None, idle_seconds: float = 0
) -> dict[str, Any]:
    """What ``--models-config`` sets up: a model for each engine, with memory for ``room_for`` of them at a time."""
    size = 1 << 20
    # Before release 0.5.0 idle models stay.
    idle: dict[str, Any] = {"idle_unload_seconds": idle_seconds} if idle_seconds else {}
    config = RegistryManagerConfig(
        memory_budget_bytes=size * (len(engines) if room_for is None else room_for),
        policy=ContentionPolicy(strategy="fail"),
        **idle,
    )
    # The source is only asked whether it exists.
    registry = {
        name: RegisteredModel(name=name, source="/", estimated_memory_bytes=size, continuous_batching=False)
        for name in engines
    }
    defaults: dict[str, Any] = {
        "continuous_batching": False,
        "force_mllm": False,
        "enable_mtp": False,
        "prefill_step_size": 2048,
        "specprefill_enabled": False,
        "specprefill_threshold": 8192,
        "specprefill_keep_pct": 0.3,
        "specprefill_backbone_pct": 0.0,
        "specprefill_draft_model": None,
        "prefix_trie_cache": False,
        "prefix_trie_cache_size": 32,
        "prefix_trie_cache_memory_mb": None,
        "stream_interval": 1,
        "gpu_memory_utilization": 0.9,
        "scheduler_config": None,
        "max_tokens": 1000,
        "download_config": DownloadConfig(),
        "auto_unload_idle_seconds": idle_seconds,
    }
    # The newest release has all of them.
    known = {field.name: defaults[field.name] for field in fields(RegistryServeDefaults)}
    serve_defaults = RegistryServeDefaults(**known)
    manager = ModelManager(config, registry, serve_defaults, engine_factory=lambda model: engines[model.entry.name])
    return {"_engine": None, "_model_name": None, "_model_path": None, "_model_manager": manager}
