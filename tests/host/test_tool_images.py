"""What the batched engine finds of media in the messages that it renders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm_mlx.api import utils
from vllm_mlx.engine import batched

from responses_plugin.hooks.tool_images import EXTRACT, find_all_media, responses_host_patches
from responses_plugin.patching import PatchSet, SeamStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, Any]

pytestmark = pytest.mark.contract

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def picture(name: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name}"}}


SOUND = {"type": "audio_url", "audio_url": {"url": "a.wav"}}
FILM = {"type": "video_url", "video_url": {"url": "a.mp4"}}
WORDS = {"type": "text", "text": "words"}


@pytest.fixture
def _patched() -> Iterator[None]:
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    yield
    patches.revert()


@pytest.mark.usefixtures("_patched")
def test_media_are_found_in_the_order_of_their_placeholders() -> None:
    """Whoever shows them: each has one payload, and the second payload is that of the second placeholder."""
    messages = [
        {"role": "user", "content": [picture("1"), WORDS]},
        {"role": "assistant", "content": [WORDS, picture("2")], "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": [WORDS, picture("3"), FILM, picture("4"), SOUND]},
        {"role": "assistant", "content": [picture("5")]},
    ]
    _, images, videos, audio = getattr(batched, EXTRACT)(messages)
    assert [image[-1] for image in images] == ["1", "2", "3", "4", "5"]
    assert (videos, audio) == (["a.mp4"], ["a.wav"])


@pytest.mark.usefixtures("_patched")
def test_every_image_of_a_tool_message_becomes_a_placeholder() -> None:
    """The engine renders as many placeholders as it has payloads."""
    messages = [{"role": "tool", "tool_call_id": "call_1", "content": [picture("1"), WORDS, picture("2")]}]
    _, images, *_ = getattr(batched, EXTRACT)(messages)
    [prepared] = batched.BatchedEngine._prepare_mllm_messages(messages)
    assert [part["type"] for part in prepared["content"]].count("image") == len(images) == 2


def test_this_host_finds_none_in_tool_messages() -> None:
    """Left alone, the host passes over them. Once this test fails, the patch can go."""
    _, images, *_ = getattr(batched, EXTRACT)([{"role": "tool", "content": [picture("1")]}])
    assert images == []
    assert [patch.inspect().status for patch in responses_host_patches()] == [SeamStatus.TAKEN]


parts = st.sampled_from([picture("1"), SOUND, FILM, WORDS, {"type": "unknown"}])
content = st.none() | st.text(max_size=5)
other_messages = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"])},
        optional={"content": content | st.lists(parts, max_size=3)},
    ),
    st.fixed_dictionaries({"role": st.just("assistant"), "tool_calls": st.just([CALL])}, optional={"content": content}),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": st.just("call_1")}, optional={"content": content}),
)


@settings(deadline=None)
@given(messages=st.lists(other_messages, max_size=5), native=st.booleans())
def test_all_else_is_as_on_the_unpatched_host(messages: list[Message], native: bool) -> None:
    """Messages and payloads are equal wherever no media stand in a call or a tool message."""
    original = getattr(utils, EXTRACT)
    assert find_all_media(original)(messages, native) == original(messages, native)
    assert find_all_media(original)(messages) == original(messages)


@settings(deadline=None)
@given(st.lists(parts, max_size=3))
def test_the_texts_are_the_hosts_own(parts: list[dict[str, Any]]) -> None:
    """Looking for payloads once more does not change what the host makes of the messages."""
    messages = [{"role": "tool", "tool_call_id": "call_1", "content": parts}]
    original = getattr(utils, EXTRACT)
    assert find_all_media(original)(messages)[0] == original(messages)[0]


@pytest.mark.usefixtures("_patched")
def test_only_the_engines_own_name_is_patched() -> None:
    """The chat handler, which makes messages for text engines with the same function, is not affected."""
    assert getattr(batched, EXTRACT) is not getattr(utils, EXTRACT)


def test_reverting_restores_the_host_exactly() -> None:
    """The very function that was there is there again."""
    before = getattr(batched, EXTRACT)
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    patches.revert()
    assert getattr(batched, EXTRACT) is before is getattr(utils, EXTRACT)
