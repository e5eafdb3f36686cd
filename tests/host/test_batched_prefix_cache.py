"""The batched engine's prefix cache, with the tiny model and with a cache that the tests look into."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from vllm_mlx.engine.batched import BatchedEngine
from vllm_mlx.mllm_batch_generator import MLLMBatchGenerator

from responses_plugin.hooks.batched_prefix_cache import (
    FETCH,
    STORE,
    fetch_text_only,
    responses_host_patches,
    store_text_only,
)
from responses_plugin.patching import PatchSet, SeamStatus
from tests import tiny
from tests.host.servers import TINY_VLM
from tests.images import data_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.contract

#: Long enough to be worth caching to every release.
INSTRUCTIONS = " ".join(["You are a helpful assistant."] * 40)


@pytest.fixture
async def engine() -> AsyncIterator[BatchedEngine]:
    """The host's engine with the tiny model and an empty cache, patched."""
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    engine = BatchedEngine(str(TINY_VLM), force_mllm=True)
    await engine.start()
    yield engine
    await engine.stop()
    patches.revert()


def about(colour: str, question: str = tiny.ASK_COLOUR_IN_ONE_WORD) -> list[dict[str, Any]]:
    """A conversation whose prompt is the same for every colour."""
    picture = {"type": "image_url", "image_url": {"url": data_url(colour)}}
    return [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": [{"type": "text", "text": question}, picture]},
    ]


async def ask(engine: BatchedEngine, messages: list[dict[str, Any]], *, stream: bool = False) -> str:
    if not stream:
        return str((await engine.chat(messages, max_tokens=16, temperature=0.0)).text)
    text = ""
    async for output in engine.stream_chat(messages, max_tokens=16, temperature=0.0):
        text = output.text
    return text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_every_image_is_looked_at(engine: BatchedEngine, stream: bool) -> None:
    """Prompts that differ in their image alone are answered by image, also when one comes again."""
    colours = ["red", "green", "blue", "red", "yellow"]
    assert [await ask(engine, about(colour), stream=stream) for colour in colours] == colours


async def test_text_in_front_of_an_image_does_not_hide_it(engine: BatchedEngine) -> None:
    """A cached conversation without an image is the beginning of one with an image, which is still seen."""
    hello = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": "Hi!"}]
    assert await ask(engine, hello) == tiny.GREETING
    assert await ask(engine, about("green")) == "green"
    assert await ask(engine, hello) == tiny.GREETING


# --- Without a model -------------------------------------------------------------------------------------------------


def request(*tokens: int, images: list[str] | None = None) -> SimpleNamespace:
    ids = SimpleNamespace(reshape=lambda shape: SimpleNamespace(tolist=lambda: list(tokens)))
    return SimpleNamespace(input_ids=ids, images=images, videos=None, audio=None)


class Cache:
    """Has everything, and counts."""

    hits = 0

    def fetch(self, tokens: list[int]) -> tuple[str, list[int]]:
        self.hits += 1
        return "kv", []


def fetched(cache: Cache | None, requests: list[Any], suffix: int = 0) -> list[Any]:
    """What a batch finds in the cache, request by request."""

    class Generator:
        prefix_cache = cache

        @fetch_text_only
        def process(self: Any, requests: list[Any]) -> list[Any]:
            found = []
            for request in requests:
                tokens = request.input_ids.reshape(-1).tolist()
                tokens = tokens[: len(tokens) - suffix]
                found.append(self.prefix_cache.fetch(tokens) if self.prefix_cache is not None else None)
            return found

    generator = Generator()
    found = generator.process(requests)
    assert generator.prefix_cache is cache, "the cache is the generator's own again"
    return found


@pytest.mark.parametrize("suffix", [0, 1])
def test_requests_with_media_miss(suffix: int) -> None:
    """In a mixed batch each request gets what it may use, whether or not the host looks up the whole prompt."""
    with_image = request(1, 2, 9, images=["a"])
    found = fetched(Cache(), [request(1, 3, 9), with_image, request(4, 5, 6)], suffix)
    assert found == [("kv", []), (None, [1, 2, 9][: 3 - suffix]), ("kv", [])]


def test_text_alone_is_found_as_ever() -> None:
    """A batch without media meets the cache itself."""
    cache = Cache()
    assert fetched(cache, [request(1, 2), request(3)]) == [("kv", [])] * 2
    assert cache.hits == 2


def test_a_host_without_a_cache_stays_without() -> None:
    """It can be switched off."""
    assert fetched(None, [request(1, images=["a"])]) == [None]


def test_the_cache_comes_back_after_a_failure() -> None:
    """A batch that fails leaves the generator as it was."""

    class Generator:
        prefix_cache = cache = Cache()

        @fetch_text_only
        def process(self: Any, requests: list[Any]) -> None:
            raise LookupError

    generator = Generator()
    with pytest.raises(LookupError):
        generator.process([request(1, images=["a"])])
    assert generator.prefix_cache is Generator.cache


def test_the_host_may_ask_the_cache_for_more() -> None:
    """Its statistics and the like are there for a batch with media as well."""

    class Generator:
        prefix_cache = Cache()

        @fetch_text_only
        def process(self: Any, requests: list[Any]) -> int:
            return int(self.prefix_cache.hits)

    assert Generator().process([request(1, images=["a"])]) == 0


def test_only_text_is_stored() -> None:
    """The finished requests that the host sees are those without media; each of the three kinds counts."""
    requests = [request(1), request(2, images=["a"]), request(3), request(4), request(5)]
    requests[3].videos = ["film"]
    requests[4].audio = ["sound"]
    stored: list[list[int]] = []
    store = store_text_only(lambda self, batch, end_indices: stored.append(end_indices))
    store(None, SimpleNamespace(requests=requests), [0, 1, 2, 3, 4])
    assert stored == [[0, 2]]


def test_both_seams_are_in_one_state() -> None:
    """A host that stores no requests with images has none to find."""
    assert len({patch.inspect().status for patch in responses_host_patches()}) == 1
    assert SeamStatus.DOES_NOT_FIT not in {patch.inspect().status for patch in responses_host_patches()}


def test_reverting_restores_the_host_exactly() -> None:
    """The very functions that were there are there again."""
    before = [inspect.getattr_static(MLLMBatchGenerator, name) for name in (FETCH, STORE)]
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    patches.revert()
    assert [inspect.getattr_static(MLLMBatchGenerator, name) for name in (FETCH, STORE)] == before
