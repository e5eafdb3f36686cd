"""Messages for multimodal engines, against what the host makes of them itself."""

from __future__ import annotations

import copy
import inspect
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from vllm_mlx.api.utils import extract_multimodal_content
from vllm_mlx.models import mllm

from responses_plugin.hooks.mllm_messages import (
    BUILDER,
    keep_tool_exchange,
    responses_build_mllm_message,
    responses_host_patches,
)
from responses_plugin.lowering.mllm import build_mllm_message, parse_arguments, replace_stand_ins, stand_in
from responses_plugin.patching import PatchSet, SeamStatus
from tests.host.template_view import View, view
from tests.images import data_url

Message = dict[str, Any]

contract = pytest.mark.contract

ATTACHED = "[Image output attached in the next message]"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
FILM = {"type": "video_url", "video_url": {"url": "a.mp4"}}
SOUND = {"type": "audio_url", "audio_url": {"url": "a.wav"}}
WORDS = {"type": "text", "text": "words"}


def call(name: str, arguments: Any) -> Message:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def exchange(content: Any = "") -> list[Message]:
    """A tool exchange as it is lowered: the call has no text, the result is text and an image that follows it."""
    return [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Take a screenshot and tell me the dominant color"},
        {"role": "assistant", "content": content, "tool_calls": [call("screenshot", "{}")]},
        {"role": "tool", "tool_call_id": "call_1", "content": f"Screenshot taken.\n{ATTACHED}"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url("yellow")}}]},
    ]


def text_of(message: Message) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content if part["type"] == "text")


def types_of(message: Message) -> list[str]:
    return [part["type"] for part in message["content"]]


def view_patched(messages: list[Message], **options: Any) -> View:
    """What reaches the template of a patched host."""
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    try:
        return view(messages, **options)
    finally:
        patches.revert()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Both of the host's ways to a template."""
    return bool(request.param)


# --- On every release ------------------------------------------------------------------------------------------------

#: In all the forms that a host reads, and one that none does.
media_parts = st.sampled_from(
    [
        PICTURE,
        FILM,
        SOUND,
        {"type": "image_url", "image_url": "http://localhost/a.png"},
        {"type": "image", "image": "a.png"},
        {"type": "audio_url", "audio_url": "a.wav"},
        {"type": "audio", "audio": "b.wav"},
        {"type": "video", "video": "b.mp4"},
        {"type": "unknown", "unknown": 1},
    ]
)
text_parts = st.text(max_size=5).map(lambda text: {"type": "text", "text": text})
#: Messages that hold no part of a tool exchange, with media of any kind, anywhere and by anyone.
untouched_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "developer"])},
    optional={
        "content": st.none()
        | st.text(max_size=5)
        | st.lists(media_parts | text_parts | st.text(max_size=5), max_size=5),
        "reasoning_content": st.text(max_size=5),
        "tool_calls": st.just([]),
    },
)


def kinds_of(message: Message) -> list[str]:
    """What the parts of a message are to a template, in their order."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    kinds = ["text" if isinstance(part, str) else part["type"].removesuffix("_url") for part in parts]
    return [kind for kind in kinds if kind != "unknown"]


def is_moved_by_a_loop(message: Message) -> bool:
    """Whether a host without a builder has the media elsewhere: it shows a user's alone, before all text, audio last."""
    kinds = kinds_of(message)
    in_front = sorted(kinds, key=lambda kind: {"audio": 1, "text": 2}.get(kind, 0))
    return not {"text"}.issuperset(kinds) and (message["role"] != "user" or kinds != in_front)


def in_place(message: Message, frames: int) -> list[Message]:
    """The entry with all parts where they stand in the message; the frames of its videos are where the first one is.

    An assistant who showed no image has said text.
    """
    built: list[Message] = []
    left = frames * kinds_of(message).count("video")
    for part in message["content"]:
        kind, *_ = kinds_of({"content": [part]}) or ["unknown"]
        text = part if isinstance(part, str) else part.get("text", "")
        if kind == "video":
            built += [{"type": "image"}] * left
            left = 0
        elif kind in ("image", "audio"):
            built.append({"type": kind})
        elif text:
            built.append({"type": "text", "text": text, "content": text})
    if message["role"] == "assistant" and {"type": "image"} not in built:
        return [{"role": "assistant", "content": "".join(part.get("text", "") for part in built)}]
    return [{"role": message["role"], "content": built}] if built else []


@contract
@settings(deadline=None)
@given(messages=st.lists(untouched_messages, max_size=4), stream=st.booleans(), frames=st.integers(0, 2))
@example(messages=[{"role": "user", "content": [SOUND, PICTURE, WORDS]}], stream=False, frames=0)
@example(messages=[{"role": "user", "content": [PICTURE, FILM, SOUND, WORDS]}], stream=True, frames=2)
@example(messages=[{"role": "assistant", "content": [WORDS, SOUND]}], stream=False, frames=0)
def test_all_else_is_as_on_the_unpatched_host(messages: list[Message], stream: bool, frames: int) -> None:
    """Template messages, template arguments, images and sounds are equal with and without the patches.

    There is one thing that may differ, and only on a host without a builder: the entry of a message whose media it
    would move. That has them where they stand. What goes with it, and all other entries, are equal there as well.
    """
    before = copy.deepcopy(messages)
    options = {"stream": stream, "frames": frames, "tools": [{"type": "function"}]}
    found, unpatched = view_patched(messages, **options), view(messages, **options)
    assert messages == before
    if not hasattr(mllm, BUILDER):
        entries = [
            in_place(message, frames) if is_moved_by_a_loop(message) else view([message], **options).messages
            for message in messages
        ]
        unpatched = replace(unpatched, messages=[entry for each in entries for entry in each])
    assert found == unpatched


@contract
@pytest.mark.parametrize("content", ["", None, "Let me look."])
def test_an_exchange_reaches_the_template(stream: bool, content: str | None) -> None:
    """Call, arguments, id and result stand there in their places, and the image has its placeholder and payload."""
    found = view_patched(exchange(content), stream=stream)
    system, user, called, result, picture = found.messages
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool", "user"]
    assert (text_of(system), text_of(user)) == (exchange()[0]["content"], exchange()[1]["content"])
    assert called == {"role": "assistant", "content": content or "", "tool_calls": [call("screenshot", {})]}
    assert result["tool_call_id"] == "call_1"
    assert text_of(result) == exchange()[3]["content"]
    assert types_of(picture)[:1] == ["image"]
    assert found.images == [data_url("yellow")]


@contract
@pytest.mark.parametrize("content", ["", None, []])
def test_an_empty_result_reaches_the_template(stream: bool, content: Any) -> None:
    """A tool that said nothing has answered all the same."""
    messages = [*exchange()[:3], {"role": "tool", "tool_call_id": "call_1", "content": content}]
    *_, result = view_patched(messages, stream=stream).messages
    assert result == {"role": "tool", "content": "", "tool_call_id": "call_1"}


@contract
def test_reasoning_of_a_call_reaches_the_template(stream: bool) -> None:
    """What the model thought before it called belongs to the call."""
    messages = exchange()
    messages[2]["reasoning_content"] = "I need to see it."
    assert view_patched(messages, stream=stream).messages[2]["reasoning_content"] == "I need to see it."


@contract
@pytest.mark.parametrize("role", ["user", "tool"])
def test_media_keep_their_places(stream: bool, role: str) -> None:
    """Placeholders stand where the parts stood, as many as there are images, in a tool message as well."""
    messages = [*exchange()[:3], {"role": role, "tool_call_id": "call_1", "content": [WORDS, PICTURE, WORDS, PICTURE]}]
    found = view_patched(messages, stream=stream)
    assert types_of(found.messages[-1]) == ["text", "image", "text", "image"]
    assert len(found.images) == 2


@contract
def test_frames_stand_for_their_video(stream: bool) -> None:
    """A host that cannot show a video shows its frames, where the video stood."""
    messages = [*exchange()[:3], {"role": "user", "content": [WORDS, FILM, WORDS, PICTURE]}]
    found = view_patched(messages, stream=stream, frames=2)
    assert types_of(found.messages[-1]) == ["text", "image", "image", "text", "image"]


@contract
def test_seams_are_taken_where_the_exchange_is_lost(stream: bool) -> None:
    """The probes agree with what the host does when it is asked for real."""
    states = {patch.seam: patch.inspect().status for patch in responses_host_patches()}
    # A host with a builder has one seam for both.
    status = states.get("MLLM messages, streamed" if stream else "MLLM messages", states["MLLM messages"])
    keeps = any(message.get("tool_calls") for message in view(exchange(), stream=stream).messages)
    assert status is (SeamStatus.NOT_NEEDED if keeps else SeamStatus.TAKEN)


@contract
def test_reverting_restores_the_host_exactly() -> None:
    """The very functions that were there are there again."""
    places = [(patch.find_owner(), patch.name) for patch in responses_host_patches()]
    before = [inspect.getattr_static(*place) for place in places]
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    patches.revert()
    assert all(inspect.getattr_static(*place) is found for place, found in zip(places, before, strict=True))


@contract
def test_the_hook_is_the_pure_function() -> None:
    """The built-in hook implementation decides nothing itself."""
    for message in exchange(content=None):
        assert responses_build_mllm_message(message=message) == build_mllm_message(message)


# --- On releases with a builder ----------------------------------------------------------------------------------

parts = st.one_of(
    st.text(max_size=5).map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(
        [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            {"type": "image_url", "image_url": "http://localhost/a.png"},
            {"type": "image", "image": "a.png"},
            {"type": "audio_url", "audio_url": {"url": "a.wav"}},
            {"type": "video_url", "video_url": {"url": "a.mp4"}},
            {"type": "unknown", "unknown": 1},
        ]
    ),
)
plain_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"])},
    optional={
        "content": st.none() | st.text(max_size=5) | st.lists(parts, max_size=4),
        "reasoning_content": st.text(max_size=5),
    },
)
json_objects = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)
exchange_messages = st.one_of(
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "tool_calls": st.lists(
                json_objects.map(json.dumps).map(lambda text: call("look", text)), min_size=1, max_size=2
            ),
        },
        optional={
            "content": st.none() | st.text(max_size=5) | st.lists(parts, max_size=3),
            "reasoning_content": st.text(max_size=5),
        },
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "tool_call_id": st.just("call_1")},
        optional={"content": st.none() | st.text(max_size=5) | st.lists(parts, max_size=3)},
    ),
)


def host_builds(messages: list[Message]) -> tuple[list[Message], list[str]]:
    """What the host hands to the template, and the images that go with it."""
    images: list[str] = []
    built = getattr(mllm, BUILDER)(messages, all_image_urls=images, video_frame_counts={})
    return built, images


@settings(deadline=None)
@given(st.lists(exchange_messages | plain_messages, max_size=5))
def test_a_host_that_keeps_the_exchange_builds_the_same_from_ours(messages: list[Message]) -> None:
    """Where the host makes arguments a mapping itself, doing it before changes neither template nor payloads."""
    assert host_builds([build_mllm_message(message) for message in messages]) == host_builds(messages)


@settings(deadline=None)
@given(st.lists(exchange_messages | plain_messages, max_size=5))
def test_the_patch_changes_nothing_that_the_host_keeps(messages: list[Message]) -> None:
    """Wrapped though it need not be, the builder gives the same, message by message and with frames."""
    builder = getattr(mllm, BUILDER)
    frames = dict.fromkeys(range(len(messages)), 2)
    images: list[str] = []
    images_wrapped: list[str] = []
    wrapped = keep_tool_exchange(builder)(messages, all_image_urls=images_wrapped, video_frame_counts=frames)
    assert wrapped == builder(messages, all_image_urls=images, video_frame_counts=frames)
    assert images_wrapped == images


@settings(deadline=None)
@given(exchange_messages)
def test_stand_ins_give_what_a_builder_gives(message: Message) -> None:
    """A host with a loop comes to show the template what this one shows it."""
    placeholder = {"role": stand_in(message)["role"], "content": []}
    [built], _ = host_builds([message])
    assert replace_stand_ins([placeholder]) == [built]


@settings(deadline=None)
@given(st.text(max_size=20) | (json_objects | st.lists(st.integers()) | st.none() | st.text()).map(json.dumps))
def test_arguments_are_read_as_on_the_text_path(text: str) -> None:
    """The text path's mapping is ours; a value that it would leave bare for the template is wrapped."""
    from vllm_mlx.engine.chat_template_safety import normalize_messages_for_chat_template

    assume("NaN" not in text)  # unequal to itself
    message = {"role": "assistant", "content": "", "tool_calls": [call("look", text)]}
    processed, *_ = extract_multimodal_content([copy.deepcopy(message)], preserve_native_format=True)
    [rendered] = normalize_messages_for_chat_template(processed)
    arguments = rendered["tool_calls"][0]["function"]["arguments"]
    assert parse_arguments(text) == (arguments if isinstance(arguments, dict) else {"value": arguments})


def test_a_builder_that_loses_the_exchange_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host whose builder drops calls and ids the seam is taken: template and payloads are those of a whole host."""
    whole = getattr(mllm, BUILDER)

    def lossy(
        messages: list[Message], *, all_image_urls: list[str], video_frame_counts: dict[int, int]
    ) -> list[Message]:
        stripped = [{"role": m["role"], "content": m.get("content", "")} for m in messages]
        built: list[Message] = whole(stripped, all_image_urls=all_image_urls, video_frame_counts=video_frame_counts)
        return built

    messages = [*exchange(), {"role": "user", "content": [FILM]}]
    by_whole = view(messages, frames=3)
    monkeypatch.setattr(mllm, BUILDER, lossy)
    assert [patch.inspect().status for patch in responses_host_patches()] == [SeamStatus.TAKEN]
    assert view(messages, frames=3) != by_whole
    assert view_patched(messages, frames=3) == by_whole
    assert getattr(mllm, BUILDER) is lossy
