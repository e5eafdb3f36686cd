"""Content parts: every type becomes chat parts, is kept as text, or is refused by name; nothing vanishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import pytest

from responses_plugin.lowering.items import IMAGE_FOLLOWS, IMAGE_NOT_SHOWN
from responses_plugin.lowering.mllm import build_mllm_message
from tests import checkpoints
from tests.images import data_url
from tests.reading import assistant, call, chat_call, chat_image, image, lower, output, refusal, text, user

if TYPE_CHECKING:
    from responses_plugin.lowering.messages import ChatMessage

RED = data_url("red")
BLUE = data_url("blue", "JPEG")
URL = "https://example.com/cat.png"
LOOK = chat_call("call_1")


def render(messages: list[ChatMessage]) -> str:
    """The prompt that the tiny model's chat template makes of these messages."""
    template = Path(checkpoints.__file__).parent / "tiny_vlm" / "chat_template.jinja"
    ready = [build_mllm_message(message) for message in messages]
    return str(jinja2.Template(template.read_text()).render(messages=ready, add_generation_prompt=True))


# --- The named checks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("detail", ["auto", "low", "high", "original", None])
def test_input_text_and_input_image_parts_lower_to_chat_parts(detail: str | None) -> None:
    """Both become their chat forms, in place, on the user's own turn; ``detail`` is carried."""
    content = [text("What is"), image(RED, detail=detail), text("and"), image(URL), text("this?")]
    carried = {"detail": detail} if detail else {}
    assert lower([user(content)]) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is"},
                chat_image(RED, **carried),
                {"type": "text", "text": "and"},
                chat_image(URL),
                {"type": "text", "text": "this?"},
            ],
        }
    ]


@pytest.mark.parametrize("place", ["message", "output"])
def test_input_image_file_id_only_is_rejected_with_named_error(place: str) -> None:
    """An image that is only an uploaded file cannot be had; the error names ``file_id`` and says what to send."""
    part = {"type": "input_image", "file_id": "f1"}
    item = user([part]) if place == "message" else output("call_1", [part])
    error = refusal({"model": "m", "input": [call("call_1"), item]})
    assert error.status == 400
    assert error.param == f"input[1].{'content' if place == 'message' else 'output'}[0].file_id"
    assert error.code == "unsupported_parameter"
    assert "file_id" in error.message
    assert "'image_url'" in error.message


@pytest.mark.parametrize("place", ["message", "output"])
@pytest.mark.parametrize(
    "fields", [{}, {"file_id": "f1"}, {"filename": "a.pdf", "file_data": "data:,x"}, {"file_url": URL}]
)
def test_input_file_part_is_rejected(place: str, fields: dict[str, str]) -> None:
    """Files are refused wherever they stand and whatever they hold; the error names the part and its type."""
    part = {"type": "input_file", **fields}
    item = user([text("read"), part]) if place == "message" else output("call_1", [text("read"), part])
    error = refusal({"model": "m", "input": [call("call_1"), item]})
    assert (error.status, error.code) == (400, "unsupported_content_type")
    assert error.param == f"input[1].{'content' if place == 'message' else 'output'}[1]"
    assert "input_file" in error.message


def test_function_output_image_stays_after_tool_result() -> None:
    """The images of an output follow its tool message at once, in a user turn, also in the rendered prompt."""
    messages = lower(
        [user("Look."), call("call_1"), output("call_1", [text("Here:"), image(RED), image(BLUE)]), user("?")]
    )
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": f"Here:\n{IMAGE_FOLLOWS}"},
        {"role": "user", "content": [chat_image(RED), chat_image(BLUE)]},
        {"role": "user", "content": "?"},
    ]
    prompt = render(messages)
    assert (
        prompt.index("Here:")
        < prompt.index(IMAGE_FOLLOWS)
        < prompt.index("<|image_pad|>")
        < prompt.index("?<|im_end|>")
    )
    assert prompt.count("<|image_pad|>") == 2


def test_function_output_preserves_text_alongside_visual_input() -> None:
    """The texts of an output are joined by newlines, wherever its images stand between them."""
    parts = [image(RED), text("one"), image(BLUE, detail="low"), text("two"), text("three")]
    assert lower([call("call_1"), output("call_1", parts)])[1:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": f"one\ntwo\nthree\n{IMAGE_FOLLOWS}"},
        {"role": "user", "content": [chat_image(RED), chat_image(BLUE, detail="low")]},
    ]


@pytest.mark.parametrize(
    "value", ["", " \n", "19 degrees", '[{"type": "input_text", "text": "not a part"}]', '{"a": 1}']
)
@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_function_output_string_form_is_unchanged(kind: str, value: str) -> None:
    """A string is the tool message's content as it is, also one that looks like parts."""
    items = [
        {"type": kind, "call_id": "c", "name": "look"},
        {"type": f"{kind}_output", "call_id": "c", "output": value},
    ]
    assert lower(items)[1:] == [{"role": "tool", "tool_call_id": "c", "content": value}]


def test_unknown_function_output_parts_remain_as_json_text() -> None:
    """Parts that are neither text nor image come as one line: a JSON array, every original field kept."""
    table = {"type": "table", "rows": [[1, None], ["é", True]], "title": "t"}
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    messages = lower([call("call_1"), output("call_1", [table, text("see"), image(RED), sound])])
    seen, as_json, follows = messages[1]["content"].split("\n")  # type: ignore[union-attr]  # a tool message is text
    assert (seen, follows) == ("see", IMAGE_FOLLOWS)
    assert json.loads(as_json) == [table, sound]
    assert "é" in as_json


@pytest.mark.parametrize("role", ["assistant", "system", "developer"])
@pytest.mark.parametrize("late", [False, True])
def test_assistant_message_image_moves_to_following_user_turn(role: str, late: bool) -> None:
    """Templates render images in user turns only, so those of other roles move to one right after; the rest stays."""
    content = [text("before"), image(RED), text("after"), image(BLUE)]
    messages = lower(
        [*([user("hi")] if late else []), {"type": "message", "role": role, "content": content}, user("go on")]
    )
    *_, own, images, last = messages
    assert images == {"role": "user", "content": [chat_image(RED), chat_image(BLUE)]}
    assert last == {"role": "user", "content": "go on"}
    if role == "assistant":
        assert own == {"role": "assistant", "content": "before\nafter"}
    elif late:
        assert own == {"role": "user", "content": f"<{role}_message>\nbefore\nafter\n</{role}_message>"}
    else:
        assert own == {"role": "system", "content": "before\nafter"}


# --- The rest of the table ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["input_text", "output_text", "text", "summary_text", "reasoning_text"])
def test_texts_of_every_name_are_text(type: str) -> None:
    """Clients replay texts under the names they got them with."""
    assert lower([user([{"type": type, "text": "hi", "annotations": [], "logprobs": None}])])[0]["content"] == "hi"


def test_a_message_of_texts_alone_is_a_string() -> None:
    """Some chat templates take nothing but strings."""
    assert lower([user([text("one"), text("two")])]) == [{"role": "user", "content": "one\ntwo"}]


def test_a_refusal_is_the_assistants_text() -> None:
    """What a model once refused is part of what it said."""
    content = [{"type": "output_text", "text": "Well."}, {"type": "refusal", "refusal": "I cannot."}]
    messages = lower([user("do"), {"type": "message", "role": "assistant", "content": content}])
    assert messages[1] == {"role": "assistant", "content": "Well.\nI cannot."}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": RED}},
        {"type": "image_url", "image_url": {"url": URL, "detail": "high"}},
        {"type": "image_url", "image_url": {"url": URL, "detail": "whatever", "more": 1}},
        {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
        {"type": "video_url", "video_url": "https://example.com/a.mp4"},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": "https://example.com/a.wav"}},
    ],
)
def test_chat_forms_are_accepted_unchanged(part: dict[str, Any]) -> None:
    """What clients send to /v1/chat/completions works here as it does there."""
    assert lower([user([part, {"type": "text", "text": "?"}])]) == [
        {"role": "user", "content": [part, {"type": "text", "text": "?"}]}
    ]


@pytest.mark.parametrize(
    ("part", "lowered"),
    [
        ({"type": "input_image", "image_url": {"url": RED}}, chat_image(RED)),
        (
            {"type": "input_image", "image_url": {"url": RED, "detail": None}, "detail": "low"},
            chat_image(RED, detail="low"),
        ),
        ({"type": "input_image", "image_url": RED, "file_id": "f1"}, chat_image(RED)),
        ({"type": "input_image", "image_url": RED, "file_id": None, "detail": None}, chat_image(RED)),
        ({"type": "image_url", "image_url": RED}, chat_image(RED)),
        ({"type": "image_url", "image_url": {"url": RED, "detail": None}}, chat_image(RED)),
    ],
)
def test_mixed_forms_of_an_image_are_read(part: dict[str, Any], lowered: dict[str, Any]) -> None:
    """Clients mix the two forms; nulls and a file beside a URL change nothing."""
    assert lower([user([part])]) == [{"role": "user", "content": [lowered]}]


def test_an_image_with_another_label_is_labelled_as_one() -> None:
    """The bytes decide what a data: URL holds. The host goes by the label and takes an unlabelled one for a file."""
    payload = RED.partition(",")[2]
    for label in ("data:;base64", "data:application/octet-stream;base64", "data:text/plain;charset=utf-8;base64"):
        assert lower([user([image(f"{label},{payload}")])])[0]["content"] == [chat_image(RED)]


def test_parts_of_unknown_type_stay_in_a_message_as_json() -> None:
    """In the place where they stood, every field kept."""
    part = {"type": "hologram", "data": {"deep": [None, "é"]}, "n": 1}
    messages = lower([user([text("see"), part, text("this")])])
    before, as_json, after = messages[0]["content"].split("\n")  # type: ignore[union-attr]  # it is text
    assert (before, after) == ("see", "this")
    assert json.loads(as_json) == part


def test_other_media_of_an_assistant_message_stay() -> None:
    """Only images move: templates have no other placeholders that depend on the role."""
    video = {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}
    messages = lower([user("hi"), {"role": "assistant", "content": [text("see"), video, image(RED)]}])
    assert messages[1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "see"}, video]},
        {"role": "user", "content": [chat_image(RED)]},
    ]


def test_shorthand_content_is_read() -> None:
    """A part instead of an array, and strings among the parts, can only mean one thing."""
    assert lower([user(text("hi"))]) == lower([user("hi")])
    assert lower([user(["see", image(RED)])]) == lower([user([text("see"), image(RED)])])
    assert lower([call("c"), output("c", text("hi"))]) == lower([call("c"), output("c", "hi")])


# --- Engines without vision -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_an_image_in_a_message_is_refused_by_a_text_model(role: str) -> None:
    """The person who attached it has to know."""
    body = {
        "model": "m",
        "input": [user("hi"), {"type": "message", "role": role, "content": [text("see"), image(RED)]}],
    }
    error = refusal(body, supports_images=False)
    assert (error.status, error.param, error.code) == (400, "input[1]", "unsupported_content_type")
    assert "text only" in error.message


def test_an_image_in_an_output_becomes_a_line_for_a_text_model() -> None:
    """An agent's history must not become unusable for what a tool returned once."""
    items = [user("look"), call("call_1"), output("call_1", [image(RED), text("a.png"), image(BLUE)]), assistant("ok")]
    assert lower(items, supports_images=False)[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [LOOK]},
        {"role": "tool", "tool_call_id": "call_1", "content": f"a.png\n{IMAGE_NOT_SHOWN}\n{IMAGE_NOT_SHOWN}"},
        {"role": "assistant", "content": "ok"},
    ]
