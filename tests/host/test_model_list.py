"""``GET /v1/models`` tells what a model can do, so that ``client-config`` need not guess."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin.__main__ import main
from responses_plugin.hooks.model_list import context_window
from tests.host.lazy import registry_globals
from tests.host.scripted import SCRIPTED_MODEL, Script, ScriptedEngine, ScriptedHost
from tests.host.servers import ENGINE_OPTIONS, MODEL_NAME, TINY_OPTIONS, TINY_VLM, running_host

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract

SEES = ["text", "image"]
READS = ["text"]


async def listed(host: ScriptedHost) -> dict[str, dict[str, Any]]:
    """The models by name, each without what the host tells of it."""
    async with host.client() as client:
        models = (await client.get("/v1/models")).json()
    assert models["object"] == "list"
    told = {}
    for model in models["data"]:
        assert (model.pop("object"), model.pop("owned_by")) == ("model", "vllm-mlx")
        assert model.pop("created") > 0
        told[model.pop("id")] = model
    return told


def configured(folder: Path, **config: Any) -> str:
    """A model that is nothing but its configuration."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


# --- The list --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mllm", [False, True])
async def test_the_one_model_is_told(mllm: bool) -> None:
    """Its window is in its folder, and whether it sees is known by the engine that was loaded."""
    with ScriptedHost(mllm=mllm, globals={"_model_path": str(TINY_VLM)}) as host:
        assert await listed(host) == {
            SCRIPTED_MODEL: {"input_modalities": SEES if mllm else READS, "max_model_len": 32768}
        }


@pytest.mark.since("0.5.0")  # Before that the registry unloads nothing, and is made otherwise; see tests/host/lazy.py.
async def test_registered_models_are_told_without_being_loaded(tmp_path: Path) -> None:
    """By their configurations; a model that has none, or a broken one, is listed all the same."""
    engines = {name: ScriptedEngine([Script(["Hi."])]) for name in ("eyes", "words", "nowhere", "broken")}
    registry = registry_globals(engines)
    broken = tmp_path / "broken"
    configured(broken)
    (broken / "config.json").write_text("{")
    sources = {
        "eyes": str(TINY_VLM),
        "words": configured(tmp_path / "words", architectures=["LlamaForCausalLM"], max_position_embeddings=8192),
        "nowhere": "house/none-such",
        "broken": str(broken),
    }
    entries = registry["_model_manager"]._registry
    for name, source in sources.items():
        entries[name] = replace(entries[name], source=source)
    with ScriptedHost(globals=registry) as host:
        assert await listed(host) == {
            "eyes": {"input_modalities": SEES, "max_model_len": 32768},
            "words": {"input_modalities": READS, "max_model_len": 8192},
            "nowhere": {"input_modalities": READS},
            "broken": {"input_modalities": READS},
        }
        assert not registry["_model_manager"]._loaded


@pytest.mark.since("0.4.0")  # Before that the host goes by the name of a model, not by its configuration.
async def test_a_lazy_model_is_told_before_it_is_loaded() -> None:
    """Nothing but its folder is there yet."""
    with ScriptedHost(globals={"_engine": None, "_model_path": str(TINY_VLM), "_force_mllm_model": False}) as host:
        assert await listed(host) == {SCRIPTED_MODEL: {"input_modalities": SEES, "max_model_len": 32768}}


async def test_the_list_needs_the_key() -> None:
    """As the host's own does."""
    with ScriptedHost(api_key="s3cret") as host:
        async with host.client() as client:
            assert (await client.get("/v1/models")).status_code == 200
            assert (await client.get("/v1/models", headers={"Authorization": "Bearer x"})).status_code == 401


async def test_other_models_stay_as_they_are() -> None:
    """Embeddings have no chat to configure."""
    with ScriptedHost(globals={"_embedding_engine": ScriptedEngine([Script(["Hi."])])}) as host:
        async with host.client() as client:
            chat, embedding = (await client.get("/v1/models")).json()["data"]
    assert "input_modalities" in chat
    assert embedding.keys() == {"id", "object", "created", "owned_by"}


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({}, None),
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 512, "text_config": {"max_position_embeddings": 131072}}, 131072),
        ({"max_position_embeddings": 4096, "text_config": {"hidden_size": 1}}, 4096),
        ({"n_positions": 2048}, 2048),
        ({"max_position_embeddings": "many"}, None),
        ({"max_position_embeddings": 4096, "rope_scaling": None}, 4096),
        # Stretched by the configuration, which the longest position tells of or does not.
        (
            {
                "max_position_embeddings": 32768,
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        (
            {
                "max_position_embeddings": 131072,
                "rope_parameters": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
            },
            131072,
        ),
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, 32768),
    ],
)
def test_the_window_is_what_the_configuration_admits(config: dict[str, Any], window: int | None) -> None:
    """Of the text model where there are several, and with its positions stretched where they are."""
    assert context_window(config) == window


# --- On the running host ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("engine", "window"), [("simple", 32768), ("batched", 4096)])
def test_client_config_has_the_real_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str, window: int
) -> None:
    """That of the model, or of a smaller cache: of the two engines only the batched one is given the operator's limit."""
    options = [*TINY_OPTIONS, *ENGINE_OPTIONS[engine], "--max-kv-size", "4096"]
    with running_host(options, tmp_path / "host.log") as server:
        for name in ([], ["--model", MODEL_NAME]):
            assert main(["client-config", "codex", "--base-url", server.api_url, *name]) == 0
            (entry,) = json.loads(capsys.readouterr().out.partition("local-models.json ---\n")[2])["models"]
            assert (entry["context_window"], entry["input_modalities"]) == (window, SEES)
