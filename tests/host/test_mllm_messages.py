"""Messages for multimodal engines, against the host's own builders and through both of its engines."""

from __future__ import annotations

import copy
import inspect
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import mlx_vlm
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from vllm_mlx import server
from vllm_mlx.api.utils import extract_multimodal_content
from vllm_mlx.engine.batched import BatchedEngine
from vllm_mlx.engine.chat_template_safety import normalize_messages_for_chat_template
from vllm_mlx.engine.simple import SimpleEngine
from vllm_mlx.models import mllm
from vllm_mlx.models.mllm import MLXMultimodalLM

from responses_plugin.hooks.mllm_messages import responses_build_mllm_message, responses_host_patches
from responses_plugin.lowering.mllm import build_mllm_message, parse_arguments
from responses_plugin.patching import PatchSet, SeamStatus
from tests.host.servers import MODEL_NAME, TINY_VLM
from tests.images import data_url

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, Any]

ATTACHED = "[Image output attached in the next message]"


def call(name: str, arguments: Any) -> Message:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def exchange(content: Any = "", colour: str = "yellow") -> list[Message]:
    """A tool exchange as it is lowered: the call has no text, the result is text and an image that follows it."""
    return [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Take a screenshot and tell me the dominant color"},
        {"role": "assistant", "content": content, "tool_calls": [call("screenshot", "{}")]},
        {"role": "tool", "tool_call_id": "call_1", "content": f"Screenshot taken.\n{ATTACHED}"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(colour)}}]},
    ]


def host_builds(messages: list[Message]) -> tuple[list[Message], list[str]]:
    """What the host hands to the template, and the images that go with it."""
    images: list[str] = []
    built = mllm._build_mllm_chat_messages(messages, all_image_urls=images, video_frame_counts={})
    return built, images


# --- Against the host's own builders ---------------------------------------------------------------------------------

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


@settings(deadline=None)
@given(st.lists(plain_messages, max_size=5))
def test_outside_a_tool_exchange_the_host_gets_what_it_got(messages: list[Message]) -> None:
    """Without calls and results every message is passed on equal, so template and payloads cannot differ."""
    ours = [build_mllm_message(message) for message in messages]
    assert ours == messages
    assert host_builds(ours) == host_builds(messages)


@settings(deadline=None)
@given(st.lists(exchange_messages | plain_messages, max_size=5))
def test_a_host_that_keeps_the_exchange_builds_the_same_from_ours(messages: list[Message]) -> None:
    """Where the host makes arguments a mapping itself, doing it before changes neither template nor payloads."""
    before = copy.deepcopy(messages)
    assert host_builds([build_mllm_message(message) for message in messages]) == host_builds(messages)
    assert messages == before


@settings(deadline=None)
@given(st.text(max_size=20) | (json_objects | st.lists(st.integers()) | st.none() | st.text()).map(json.dumps))
def test_arguments_are_read_as_on_the_text_path(text: str) -> None:
    """The text path's mapping is ours; a value that it would leave bare for the template is wrapped."""
    assume("NaN" not in text)  # unequal to itself
    message = {"role": "assistant", "content": "", "tool_calls": [call("look", text)]}
    processed, *_ = extract_multimodal_content([copy.deepcopy(message)], preserve_native_format=True)
    [rendered] = normalize_messages_for_chat_template(processed)
    arguments = rendered["tool_calls"][0]["function"]["arguments"]
    assert parse_arguments(text) == (arguments if isinstance(arguments, dict) else {"value": arguments})


def test_the_hook_is_the_pure_function() -> None:
    """The built-in hook implementation decides nothing itself."""
    for message in exchange(content=None):
        assert responses_build_mllm_message(message=message) == build_mllm_message(message)


# --- The patches -----------------------------------------------------------------------------------------------------


@pytest.fixture
def patched() -> Iterator[None]:
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    yield
    patches.revert()


def translate(messages: list[Message]) -> list[Message]:
    translated: list[Message] = MLXMultimodalLM._translate_messages_for_native_video(
        SimpleNamespace(), messages, 2.0, 8
    )
    return translated


def test_this_host_keeps_the_exchange_but_not_with_native_video() -> None:
    """Probing finds what this host does: one seam is not needed and says why, the other is taken."""
    chat_messages, native_video = (patch.inspect() for patch in responses_host_patches())
    assert chat_messages.status is SeamStatus.NOT_NEEDED
    assert chat_messages.reason == "host already keeps tool_calls and tool_call_id"
    assert native_video.status is SeamStatus.TAKEN


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("content", ["", None])
def test_native_video_keeps_the_exchange(content: Any) -> None:
    """Call and result reach the template there as well; parts are translated as before, in their places."""
    *texts, last = translate(exchange(content))
    assert [message["role"] for message in texts] == ["system", "user", "assistant", "tool"]
    assert texts[2] == {"role": "assistant", "content": "", "tool_calls": [call("screenshot", {})]}
    assert texts[3] == exchange()[3]
    assert [part["type"] for part in last["content"]] == ["image"]


@pytest.mark.usefixtures("patched")
def test_native_video_is_otherwise_untouched() -> None:
    """Without a tool exchange the translation is the host's own."""
    messages = [exchange()[0], exchange()[1], {"role": "assistant", "content": ""}, exchange()[4]]
    patched_translation = translate(messages)
    original = inspect.unwrap(MLXMultimodalLM._translate_messages_for_native_video)
    assert patched_translation == original(SimpleNamespace(), messages, 2.0, 8)


def test_a_builder_that_loses_the_exchange_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host whose builder drops calls and ids the seam is taken: template and payloads are those of a whole host."""
    whole = mllm._build_mllm_chat_messages

    def lossy(
        messages: list[Message], *, all_image_urls: list[str], video_frame_counts: dict[int, int]
    ) -> list[Message]:
        stripped = [{"role": m["role"], "content": m.get("content", "")} for m in messages]
        built: list[Message] = whole(stripped, all_image_urls=all_image_urls, video_frame_counts=video_frame_counts)
        return built

    messages = exchange()
    video = {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "a.mp4"}}]}
    images_of_whole: list[str] = []
    built_by_whole = whole([*messages, video], all_image_urls=images_of_whole, video_frame_counts={5: 3})

    monkeypatch.setattr(mllm, "_build_mllm_chat_messages", lossy)
    patches = PatchSet("under test", responses_host_patches())
    assert patches.states()[0].status is SeamStatus.TAKEN
    patches.apply()
    try:
        images: list[str] = []
        built = mllm._build_mllm_chat_messages([*messages, video], all_image_urls=images, video_frame_counts={5: 3})
    finally:
        patches.revert()
    assert (built, images) == (built_by_whole, images_of_whole)
    assert mllm._build_mllm_chat_messages is lossy


def test_reverting_restores_the_host_exactly() -> None:
    """The very functions that were there are there again."""
    places = [(patch.owner, patch.name) for patch in responses_host_patches()]
    before = [inspect.getattr_static(*place) for place in places]
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    patches.revert()
    assert all(inspect.getattr_static(*place) is found for place, found in zip(places, before, strict=True))


# --- Through both engines --------------------------------------------------------------------------------------------


@dataclass
class Engine:
    """The tiny model behind the host's app, with a note of what reached the model."""

    client: TestClient
    #: Rendered prompt and image payloads of each generation.
    seen: list[tuple[str, list[str]]] = field(default_factory=list)

    def chat(self, messages: list[Message], *, stream: bool) -> str:
        tool = {"type": "function", "function": {"name": "screenshot", "parameters": {"type": "object"}}}
        body = {"model": MODEL_NAME, "messages": messages, "tools": [tool], "temperature": 0, "max_tokens": 32}
        answer = self.client.post("/v1/chat/completions", json={**body, "stream": stream})
        if not stream:
            return str(answer.json()["choices"][0]["message"]["content"])
        chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


@pytest.fixture(scope="module", params=["simple", "batched"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    make = {"simple": SimpleEngine, "batched": BatchedEngine}[request.param]
    with pytest.MonkeyPatch.context() as patch:
        host_engine = make(str(TINY_VLM), force_mllm=True)
        patch.setattr(server, "_engine", host_engine)
        patch.setattr(server, "_model_name", MODEL_NAME)
        with TestClient(server.app) as client:
            engine = Engine(client)

            def note(owner: Any, name: str) -> None:
                original = getattr(owner, name)

                def noted(*args: Any, **kwargs: Any) -> Any:
                    prompt, images = args[2:4] if args else (kwargs["prompt"], kwargs["images"])
                    engine.seen.append((prompt, list(images or ())))
                    return original(*args, **kwargs)

                patch.setattr(owner, name, noted)

            if request.param == "simple":
                note(mlx_vlm, "generate")
                note(mlx_vlm, "stream_generate")
            else:
                note(host_engine._mllm_scheduler, "add_request_async")
            yield engine


# Another image for each form: repeating one is the business of test_stale_image_cache.py.
@pytest.mark.parametrize(("stream", "colour"), [(False, "yellow"), (True, "blue")], ids=["JSON", "SSE"])
def test_a_lowered_exchange_reaches_the_template_whole(engine: Engine, stream: bool, colour: str) -> None:
    """Call, result and image stand in the prompt in this order, one placeholder for one payload, and are understood."""
    messages = [build_mllm_message(message) for message in exchange(colour=colour)]
    engine.seen.clear()
    answer = engine.chat(messages, stream=stream)
    engine.chat([*messages[:2], messages[-1]], stream=stream)
    (prompt, images), (prompt_without_exchange, _) = engine.seen

    assert answer == f"The screenshot is mostly {colour}."
    assert (prompt.count("<|image_pad|>"), len(images)) == (1, 1)
    conversation = prompt[prompt.index("Take a screenshot") :]
    landmarks = ['"name": "screenshot", "arguments": {}', "<tool_response>", ATTACHED, "<|image_pad|>"]
    places = [conversation.index(landmark) for landmark in landmarks]
    assert places == sorted(places)

    assert len(prompt) > len(prompt_without_exchange), "the model is told more than in a fresh turn"
