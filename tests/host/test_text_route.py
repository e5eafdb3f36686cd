"""Requests without media to a multimodal model, for which the simple engine builds a text model.

It has none for the tiny model's architecture, so an untrained one of another is served here. See
``tests/checkpoints/hybrid.py``.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import mlx_vlm
import pytest
from mlx_lm.models.cache import KVCache
from mlx_lm.models.qwen3_5 import TextModel as HybridTextModel
from starlette.testclient import TestClient
from vllm_mlx import server, text_model_from_vlm
from vllm_mlx.engine.simple import SimpleEngine

import responses_plugin
from responses_plugin.hooks.text_route import BUILD, none_that_cannot_run, responses_host_patches
from responses_plugin.patching import PatchSet, SeamStatus
from tests import tiny
from tests.checkpoints.hybrid import write_hybrid
from tests.host.asking import Item, called, image, output, user
from tests.host.scripted import tiny_tokenizer
from tests.host.servers import TINY_VLM
from tests.reading import lower_body
from tests.sse import read_stream, terminal_response

if TYPE_CHECKING:
    from collections.abc import Iterator
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

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.make_cache: Any = lambda: [KVCache()]
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, tokens: Any, cache: Any = None) -> Any:
        self.shapes.append(tokens.shape)
        if self._error:
            raise self._error
        return tokens


def test_a_text_model_that_runs_is_kept() -> None:
    """The very object that the host built, tried with a single token; its arguments are passed on."""
    text_model = TextModel()
    given: list[Any] = []

    def original(*args: Any, **options: Any) -> TextModel:
        given.append((args, options))
        return text_model

    assert none_that_cannot_run(original)("vlm", model_path="path", enable_mtp=False) is text_model
    assert given == [(("vlm",), {"model_path": "path", "enable_mtp": False})]
    assert text_model.shapes == [(1, 1)]


def test_a_text_model_that_fails_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """So the host uses the multimodal one, and the log says why."""
    failing = TextModel(ValueError("[rms_norm] shapes"))
    assert none_that_cannot_run(lambda vlm_model, model_path: failing)("vlm", "path") is None
    assert "[rms_norm] shapes" in caplog.text


def test_a_text_model_with_a_state_of_its_own_needs_a_host_that_asks(caplog: pytest.LogCaptureFixture) -> None:
    """One that asks what kind of cache it keeps has it; for another there is none, and the log says so."""
    text_model = TextModel()
    text_model.make_cache = lambda: [object()]
    asks = hasattr(SimpleEngine, "_probe_system_kv_cache_support")
    assert none_that_cannot_run(lambda vlm_model, model_path: text_model)("vlm", "path") is (
        text_model if asks else None
    )
    assert ("mixes up" in caplog.text) is not asks


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


# --- Through the host ------------------------------------------------------------------------------------------------

EXCHANGE = [user(tiny.ASK_WEATHER), called("get_weather", '{"city": "Paris"}'), output(tiny.WEATHER_RESULT)]


@dataclass
class Hybrid:
    """The untrained model behind the host's app, with a note of what reached it."""

    client: TestClient
    #: The tokens that the text model was given, one after the other: a prompt, and then what it says itself.
    read: list[int] = field(default_factory=list)
    #: The prompts that the multimodal model was given, with the images of each.
    seen: list[tuple[str, list[str]]] = field(default_factory=list)

    def ask(self, items: list[Item], *, stream: bool, **options: Any) -> dict[str, Any]:
        """The response; the notes are of this request alone."""
        self.read.clear()
        self.seen.clear()
        answer = self.client.post("/v1/responses", json=asked(items, stream=stream, **options))
        assert answer.status_code == 200, answer.text
        response = terminal_response(read_stream(answer.content)) if stream else answer.json()
        assert response["status"] in ("completed", "incomplete"), response
        return dict(response)


def asked(items: list[Item], **options: Any) -> dict[str, Any]:
    body = {"model": tiny.MODEL, "input": items, "tools": tiny.RESPONSES_TOOLS, "temperature": 0, **options}
    return {"max_output_tokens": 8, **body}


def rendered(items: list[Item], **options: Any) -> str:
    """The prompt that the template makes of the lowered conversation."""
    chat, messages = lower_body(asked(items, **options))
    template = tiny_tokenizer().apply_chat_template
    return str(template(messages, tools=chat["tools"], add_generation_prompt=True, tokenize=False))


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hybrid]:
    """The host with the plugin and the simple engine."""
    model = tmp_path_factory.mktemp("hybrid") / "model"
    write_hybrid(TINY_VLM, model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_engine", SimpleEngine(str(model), force_mllm=True))
        patch.setattr(server, "_model_name", tiny.MODEL)
        patch.setattr(server, "_auth_warning_logged", True)
        responses_plugin.enable()
        try:
            with TestClient(server.app) as client:
                hybrid = Hybrid(client)
                note_what_is_read(patch, hybrid)
                yield hybrid
        finally:
            responses_plugin.disable()


def note_what_is_read(patch: pytest.MonkeyPatch, hybrid: Hybrid) -> None:
    read = HybridTextModel.__call__

    def noted(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        hybrid.read.extend(inputs.reshape(-1).tolist())
        return read(self, inputs, *args, **kwargs)

    patch.setattr(HybridTextModel, "__call__", noted)
    for name in ("generate", "stream_generate"):
        patch.setattr(mlx_vlm, name, noting_prompt(getattr(mlx_vlm, name), hybrid.seen))


def noting_prompt(original: Any, seen: list[tuple[str, list[str]]]) -> Any:
    def noted(model: Any, processor: Any, prompt: str, image: Any = None, **kwargs: Any) -> Any:
        seen.append((prompt, list(image or ())))
        return original(model, processor, prompt, image, **kwargs)

    return noted


#: 0.3.0 cannot go back to a state of such a model, so the multimodal one answers there.
kept = pytest.mark.since("0.4.0")


@pytest.fixture(params=[False, True], ids=["json", "sse"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@kept
@pytest.mark.parametrize("instructed", [False, True], ids=["bare", "instructed"])
def test_a_tool_exchange_reaches_the_text_model_whole(hybrid: Hybrid, stream: bool, instructed: bool) -> None:
    """All that the template makes of it, call and result in their places; and the fresh turn is strictly shorter."""
    lengths = []
    for items in (EXCHANGE[:1], EXCHANGE):
        # Instructions of its own for each: the engine may know the beginning of a prompt, and not read it again.
        options = {"instructions": f"Answer {stream} {len(items)} at once."} if instructed else {}
        hybrid.ask(items, stream=stream, **options)
        prompt = rendered(items, **options)
        assert tiny_tokenizer().decode(hybrid.read).startswith(prompt)
        assert hybrid.seen == []
        lengths.append(len(prompt))
    assert lengths[0] < lengths[1]
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    assert 0 < prompt.index(tiny.ASK_WEATHER) < prompt.index(call) < prompt.index(tiny.WEATHER_RESULT)


@kept
def test_a_request_with_an_image_goes_the_other_way(hybrid: Hybrid, stream: bool) -> None:
    """To the multimodal model, exchange and image, with nothing of it to the text model; the next one without does not."""
    shown = [*EXCHANGE, user("And this?", image("red" if stream else "blue"))]
    hybrid.ask(shown, stream=stream)
    [(prompt, images)] = hybrid.seen
    assert (prompt.count("<|image_pad|>"), len(images)) == (1, 1)
    assert 0 < prompt.index(tiny.ASK_WEATHER) < prompt.index(tiny.WEATHER_RESULT) < prompt.index("<|image_pad|>")
    assert hybrid.read == []
    hybrid.ask(EXCHANGE, stream=stream)
    assert (bool(hybrid.read), hybrid.seen) == (True, [])


# On 0.3.0, batched engines of other tests leave its multimodal model patched for an older mlx-vlm.
@kept
def test_what_came_before_does_not_matter(hybrid: Hybrid, stream: bool) -> None:
    """The same prompt has the same answer, whatever was asked under the same instructions meanwhile."""
    options: dict[str, Any] = {"instructions": f"Be brief, {stream}.", "max_output_tokens": 24}
    said = [
        hybrid.ask(items, stream=stream, **options)["output"][0]["content"][0]["text"]
        for items in (EXCHANGE, EXCHANGE[:1], EXCHANGE, EXCHANGE)
    ]
    assert said[0] == said[2] == said[3] != said[1]
