"""The host's image cache, with the tiny model behind the host's own ``/v1/chat/completions``."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient
from vllm_mlx import server
from vllm_mlx.engine.simple import SimpleEngine
from vllm_mlx.mllm_cache import MLLMPrefixCacheManager

from responses_plugin.hooks.stale_image_cache import responses_host_patches
from responses_plugin.patching import PatchSet, SeamStatus
from tests.host.servers import MODEL_NAME, TINY_VLM
from tests.images import data_url

pytestmark = pytest.mark.contract

QUESTION = "What is the dominant color of this image? Answer with one word."

Ask = Callable[[str, list[str]], str]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Ask the host about images, as ``"JSON"`` or as ``"SSE"``; one engine answers all tests, so its cache fills."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_engine", SimpleEngine(str(TINY_VLM), force_mllm=True))
        patch.setattr(server, "_model_name", MODEL_NAME)
        with TestClient(server.app) as client:
            yield lambda form, images: read_answer(client, form, images)


@pytest.fixture
def patched() -> Iterator[None]:
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    yield
    patches.revert()


_sizes = itertools.count(40)


@pytest.fixture
def fresh_size() -> tuple[int, int]:
    """An image size that no other test uses: other bytes, another cache entry."""
    return next(_sizes), 64


def read_answer(client: TestClient, form: str, images: list[str]) -> str:
    """The text of the answer, or the error that came in its place."""
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    message = {"role": "user", "content": [{"type": "text", "text": QUESTION}, *parts]}
    body = {"model": MODEL_NAME, "messages": [message], "temperature": 0, "max_tokens": 16, "stream": form == "SSE"}
    answer = client.post("/v1/chat/completions", json=body)
    if form == "JSON":
        return str(answer.json()["choices"][0]["message"]["content"])
    text = ""
    for line in answer.text.splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                return f"error: {chunk['error']['message']}"
            text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
    return text


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize(
    "forms",
    [("JSON", "SSE"), ("SSE", "JSON"), ("SSE", "SSE"), ("JSON", "JSON"), ("JSON", "SSE", "SSE", "JSON")],
    ids="-".join,
)
def test_a_repeated_request_is_answered_the_same(ask: Ask, fresh_size: tuple[int, int], forms: tuple[str, ...]) -> None:
    """The same images and prompt get the same answer, streamed or not, however often and in whatever order."""
    image = data_url("green", size=fresh_size)
    assert [ask(form, [image]) for form in forms] == ["green"] * len(forms)


@pytest.mark.usefixtures("patched")
def test_images_in_another_order_are_another_request(ask: Ask, fresh_size: tuple[int, int]) -> None:
    """Two images the other way round are answered as if they had come first, though the host's key is the same."""
    red, blue = data_url("red", size=fresh_size), data_url("blue", size=fresh_size)
    fresh = ask("SSE", [blue, red])
    ask("JSON", [red, blue])
    assert ask("SSE", [blue, red]) == fresh


def test_this_host_needs_the_patch(ask: Ask, fresh_size: tuple[int, int]) -> None:
    """Left alone, the host fails the streamed repetition. Once this test fails, the patch can go."""
    image = data_url("green", size=fresh_size)
    assert ask("JSON", [image]) == "green"
    assert ask("SSE", [image]) != "green"


def test_reverting_restores_the_host_exactly() -> None:
    """The very function that was there is there again."""
    before = inspect.getattr_static(MLLMPrefixCacheManager, "fetch_cache")
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    assert inspect.getattr_static(MLLMPrefixCacheManager, "fetch_cache") is not before
    patches.revert()
    assert inspect.getattr_static(MLLMPrefixCacheManager, "fetch_cache") is before


@pytest.mark.usefixtures("patched")
def test_the_host_keeps_its_books() -> None:
    """A hit is still a hit and is counted, so that the host neither stores twice nor reports nonsense."""
    cache = MLLMPrefixCacheManager()
    assert cache.fetch_cache(["image"], "prompt") == (None, False)
    cache.store_cache(["image"], "prompt", [object()], 7)
    assert cache.fetch_cache(["image"], "prompt") == (None, True)
    assert (cache.stats.hits, cache.stats.misses, len(cache)) == (1, 1, 1)


def test_a_mended_host_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that hands out no stored KV cache says itself that it needs no patch."""

    def fetch_nothing(self: MLLMPrefixCacheManager, images: list[str], prompt: str) -> tuple[None, bool]:
        return None, False

    monkeypatch.setattr(MLLMPrefixCacheManager, "fetch_cache", fetch_nothing)
    [patch] = responses_host_patches()
    assert patch.inspect().status is SeamStatus.NOT_NEEDED
