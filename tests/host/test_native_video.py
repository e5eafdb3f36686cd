"""The host's native video route, with the processor and the parts of mlx-vlm that it needs played by the tests."""

from __future__ import annotations

import inspect
import sys
from types import MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm_mlx.models import mllm
from vllm_mlx.models.mllm import MLXMultimodalLM

from responses_plugin.hooks import mllm_messages, native_video
from responses_plugin.hooks.native_video import TRANSLATE, responses_host_patches
from responses_plugin.patching import PatchSet, SeamStatus
from tests.images import data_url

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, Any]

pytestmark = pytest.mark.contract

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
PARSED_CALL = {**CALL, "function": {"name": "look", "arguments": {"at": "sky"}}}
FILM = {"type": "video_url", "video_url": {"url": "film.mp4"}}
PICTURE = {"type": "image_url", "image_url": {"url": data_url("red")}}


def exchange(content: Any = "") -> list[Message]:
    return [
        {"role": "user", "content": "What is in the sky?"},
        {"role": "assistant", "content": content, "tool_calls": [CALL], "reasoning_content": "I look."},
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "Here."}, FILM]},
    ]


@pytest.fixture(autouse=True)
def _local_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Media are found where they are said to be."""
    monkeypatch.setattr(mllm, "process_video_input", lambda video: f"/local/{video}")
    monkeypatch.setattr(mllm, "process_image_input", lambda image: f"/local/{image[:9]}")


@pytest.fixture
def patched() -> Iterator[None]:
    # With the other patches of the same class, which must not get in the way.
    patches = PatchSet("under test", [*mllm_messages.responses_host_patches(), *responses_host_patches()])
    patches.apply()
    yield
    patches.revert()


def translate(messages: list[Message]) -> list[Message]:
    translated: list[Message] = getattr(MLXMultimodalLM, TRANSLATE)(SimpleNamespace(), messages, 2.0, 8)
    return translated


# --- Messages --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("content", ["", None, "Let me look."])
def test_the_exchange_is_translated_whole(content: Any) -> None:
    """Call, arguments, reasoning, id and empty content are kept; parts are translated as before, in their places."""
    user, called, result, film = translate(exchange(content))
    assert user == exchange()[0]
    assert called == {
        "role": "assistant",
        "content": content or "",
        "tool_calls": [PARSED_CALL],
        "reasoning_content": "I look.",
    }
    assert result == {"role": "tool", "content": "", "tool_call_id": "call_1"}
    assert [part["type"] for part in film["content"]] == ["text", "video"]


def test_this_host_loses_the_exchange() -> None:
    """Left alone, the host drops calls and ids. Once this test fails, the patch can go."""
    _, called, result, _ = translate(exchange())
    assert "tool_calls" not in called
    assert "tool_call_id" not in result
    assert [patch.inspect().status for patch in responses_host_patches()] == [SeamStatus.TAKEN] * 4


plain_content = (
    st.none()
    | st.text(max_size=5)
    | st.lists(
        st.text(max_size=5).map(lambda text: {"type": "text", "text": text})
        | st.sampled_from([FILM, PICTURE, {"type": "image", "image": "a.png"}, {"type": "unknown"}]),
        max_size=3,
    )
)
plain_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"])},
    optional={"content": plain_content, "reasoning_content": st.text(max_size=5)},
) | st.fixed_dictionaries({"role": st.just("tool"), "content": st.text(max_size=5)})


@settings(deadline=None)
@given(st.lists(plain_messages, max_size=5))
def test_all_else_is_as_on_the_unpatched_host(messages: list[Message]) -> None:
    """Without calls and ids the translation is the host's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mllm, "process_video_input", str)
        patch.setattr(mllm, "process_image_input", str)
        original = getattr(MLXMultimodalLM, TRANSLATE)
        wrapped = native_video.keep_tool_exchange(original)
        assert wrapped(SimpleNamespace(), messages, 2.0, 8) == original(SimpleNamespace(), messages, 2.0, 8)


# --- Template arguments ----------------------------------------------------------------------------------------------


class Processor:
    """Notes what it is asked, and has something to give for it."""

    chat_template = ""

    def __init__(self) -> None:
        self.rendered: list[tuple[list[Message], dict[str, Any]]] = []
        self.processed: list[dict[str, Any]] = []

    def apply_chat_template(self, messages: list[Message], **arguments: Any) -> str:
        self.rendered.append((messages, arguments))
        return "prompt"

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        self.processed.append(inputs)
        return {"input_ids": [[1]], "attention_mask": [[1]]}


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Processor:
    """That of a model which takes videos as they are; ``mlx_vlm.video_generate`` is not in every mlx-vlm."""
    module = ModuleType("mlx_vlm.video_generate")
    module.process_vision_info = lambda messages, **options: ([], [], {})  # type: ignore[attr-defined]
    module.generate = lambda *args, **kwargs: SimpleNamespace(text="a bird")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlx_vlm.video_generate", module)
    return Processor()


def ask(processor: Processor, *, stream: bool, messages: list[Message] | None = None, **options: Any) -> str:
    """The answer of the route, through ``chat`` or ``stream_chat``."""
    model = SimpleNamespace(
        model=None,
        processor=processor,
        _loaded=True,
        _video_native=True,
        _video_native_with_audio=False,
    )
    for name in (
        "_collect_video_inputs",
        "_collect_audio_inputs",
        "_generate_native_video",
        "_prepare_native_video_inputs",
        TRANSLATE,
    ):
        setattr(model, name, MethodType(inspect.getattr_static(MLXMultimodalLM, name), model))
    if stream:
        chunks = MLXMultimodalLM.stream_chat(model, messages=messages or exchange(), **options)
        return "".join(chunk.text for chunk in chunks)
    return str(MLXMultimodalLM.chat(model, messages=messages or exchange(), **options).text)


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_the_request_says_to_the_template_reaches_it(processor: Processor, stream: bool) -> None:
    """``enable_thinking``, ``chat_template_kwargs`` and the tools do, and the exchange is whole."""
    arguments = {"enable_thinking": False, "documents": ["a"]}
    tools = [{"type": "function"}]
    answer = ask(processor, stream=stream, tools=tools, enable_thinking=True, chat_template_kwargs=dict(arguments))
    assert answer == "a bird"
    [(messages, rendered)] = processor.rendered
    # The more particular one wins, as elsewhere in the host.
    assert {name: rendered[name] for name in ("enable_thinking", "documents", "tools")} == {**arguments, "tools": tools}
    assert rendered["tokenize"] is False
    assert messages[1]["tool_calls"] == [PARSED_CALL]
    [inputs] = processor.processed
    assert inputs["text"] == ["prompt"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_without_such_arguments_the_template_is_asked_as_ever(
    processor: Processor, request: pytest.FixtureRequest, stream: bool
) -> None:
    """A request that says nothing gets the defaults of its template, as on the unpatched host."""
    messages = [{"role": "user", "content": [FILM]}]
    ask(processor, stream=stream, messages=messages)
    request.getfixturevalue("patched")
    ask(processor, stream=stream, messages=messages)
    before, after = processor.rendered
    assert after == before


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_this_host_loses_the_arguments(processor: Processor, stream: bool) -> None:
    """Left alone, the host says nothing of them to the template. Once this test fails, the patches can go."""
    ask(processor, stream=stream, chat_template_kwargs={"enable_thinking": False})
    [(_, rendered)] = processor.rendered
    assert "enable_thinking" not in rendered


def test_reverting_restores_the_host_exactly() -> None:
    """The very functions that were there are there again."""
    places = [(patch.find_owner(), patch.name) for patch in responses_host_patches()]
    before = [inspect.getattr_static(*place) for place in places]
    patches = PatchSet("under test", responses_host_patches())
    patches.apply()
    patches.revert()
    assert all(inspect.getattr_static(*place) is found for place, found in zip(places, before, strict=True))
