"""Requests without media to a multimodal model, for which the simple engine builds a text model."""

from __future__ import annotations

import inspect
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from vllm_mlx import text_model_from_vlm
from vllm_mlx.engine.simple import SimpleEngine

from responses_plugin.hooks.text_route import BUILD, none_that_cannot_run, responses_host_patches
from responses_plugin.patching import PatchSet, SeamStatus
from tests import tiny
from tests.host.servers import TINY_VLM

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract


async def test_the_tiny_model_answers_without_an_image() -> None:
    """Its architecture is one for which some releases build a text model that cannot run."""
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    engine = SimpleEngine(str(TINY_VLM), force_mllm=True)
    try:
        await engine.start()
        answer = await engine.chat([{"role": "user", "content": "Hi!"}], max_tokens=16, temperature=0.0)
        assert answer.text == tiny.GREETING
    finally:
        await engine.stop()
        patches.revert()


class TextModel:
    """Stands for one that the host has built."""

    layers = ()

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, tokens: Any, cache: Any = None) -> Any:
        self.shapes.append(tokens.shape)
        if self._error:
            raise self._error
        return tokens


def test_a_text_model_that_runs_is_kept() -> None:
    """The very object that the host built, tried with a single token; its arguments are passed on."""
    text_model = TextModel()
    asked: list[Any] = []

    def original(vlm_model: Any, model_path: Any) -> TextModel:
        asked.append((vlm_model, model_path))
        return text_model

    assert none_that_cannot_run(original)("vlm", model_path="path") is text_model
    assert asked == [("vlm", "path")]
    assert text_model.shapes == [(1, 1)]


def test_a_text_model_that_fails_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """So the host uses the multimodal one, and the log says why."""
    failing = TextModel(ValueError("[rms_norm] shapes"))
    assert none_that_cannot_run(lambda vlm_model, model_path: failing)("vlm", "path") is None
    assert "[rms_norm] shapes" in caplog.text


def test_none_stays_none() -> None:
    """Where the host builds none there is nothing to try."""
    assert none_that_cannot_run(lambda vlm_model, model_path: None)("vlm", "path") is None


def test_the_seam_is_taken_where_every_architecture_gets_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The probe agrees with what the host does, and makes no noise above INFO."""
    config = json.loads((TINY_VLM / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    weightless = SimpleNamespace(language_model=SimpleNamespace(parameters=dict))
    builds = getattr(text_model_from_vlm, BUILD)(weightless, tmp_path) is not None
    caplog.clear()
    [patch] = responses_host_patches()
    assert patch.inspect().status is (SeamStatus.TAKEN if builds else SeamStatus.NOT_NEEDED)
    assert [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")] == []


def test_reverting_restores_the_host_exactly() -> None:
    """The very function that was there is there again."""
    before = inspect.getattr_static(text_model_from_vlm, BUILD)
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    patches.revert()
    assert inspect.getattr_static(text_model_from_vlm, BUILD) is before
