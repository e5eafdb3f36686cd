"""Items that no chat role fits: a labelled note, its images shown as images, data that nobody can read left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.images import data_url
from tests.reading import lower, refusal, user

RED = data_url("red")
RED_BYTES = RED.partition(",")[2]
SCREENSHOT = {
    "type": "computer_call_output",
    "id": "cuo_1",
    "call_id": "c",
    "output": {"type": "computer_screenshot", "image_url": RED},
}
SCREENSHOT_TOLD = {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}}
PAINTING = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": RED_BYTES, "size": "64x64"}
RED_TURN = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": RED}}]}


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (
            SCREENSHOT,
            f"[item of type computer_call_output]\n{json.dumps(SCREENSHOT_TOLD)}",
        ),
        (PAINTING, '[item of type image_generation_call]\n{"type": "image_generation_call", "size": "64x64"}'),
    ],
)
def test_an_image_is_shown_after_the_note(item: dict[str, Any], told: str) -> None:
    """As an image and not as a wall of base64; a model without vision is told that there was one."""
    assert lower([user("hi"), item, user("?")])[1:] == [
        {"role": "user", "content": told},
        RED_TURN,
        {"role": "user", "content": "?"},
    ]
    (_, note, _) = lower([user("hi"), item, user("?")], supports_images=False)
    assert note == {"role": "user", "content": f"{told}\n[Its image is not shown because this model cannot see images]"}


@pytest.mark.parametrize(
    "item",
    [
        {**SCREENSHOT, "output": {"type": "computer_screenshot", "file_id": "f1"}},
        {**SCREENSHOT, "output": "done"},
        {**SCREENSHOT, "output": None},
        {**PAINTING, "result": None},
        {**PAINTING, "result": ""},
    ],
)
def test_without_an_image_there_is_the_note_alone(item: dict[str, Any]) -> None:
    """A picture that is not there yet, or is somewhere else, is no mistake."""
    assert len(lower([user("hi"), item])) == 2


@pytest.mark.parametrize(
    ("item", "param", "code"),
    [
        ({**SCREENSHOT, "output": {"image_url": 5}}, "input[1].output.image_url", "invalid_type"),
        ({**SCREENSHOT, "output": {"image_url": "file:///etc/passwd"}}, "input[1].output.image_url", "invalid_image"),
        ({**PAINTING, "result": "aGVsbG8="}, "input[1].result", "invalid_image"),
        ({**PAINTING, "result": [1]}, "input[1].result", "invalid_type"),
    ],
)
def test_a_bad_image_is_refused_by_its_place(item: dict[str, Any], param: str, code: str) -> None:
    """Like one in a message: the host could not open it either."""
    error = refusal({"model": "m", "input": [user("hi"), item]})
    assert (error.status, error.param, error.code) == (400, param, code)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            [{"type": "input_text", "text": "Go."}, {"type": "encrypted_content", "encrypted_content": "Now."}],
            "Go.\nNow.",
        ),
        ("Go.", "Go."),
        ([{"type": "hologram", "n": 1}, 5], '{"type": "hologram", "n": 1}\n5'),
        (None, ""),
    ],
)
def test_a_message_between_agents_says_who_told_whom(content: Any, told: str) -> None:
    """What Codex calls its encrypted content is text that this server once generated."""
    item = {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": content}
    assert lower([item]) == [{"role": "user", "content": f"[message from /root to /root/a]\n{told}"}]


def test_tools_that_an_item_brings_along_say_nothing() -> None:
    """They are offered, like those of the request."""
    assert lower([{"type": "additional_tools", "tools": [{"type": "function", "name": "f"}]}, user("hi")]) == [
        {"role": "user", "content": "hi"}
    ]


def test_data_is_left_out_of_notes() -> None:
    """Thousands of characters without a blank are nothing a model can read, wherever they are; long prose stays."""
    prose = "long " * 500
    item = {"type": "telepathy_call", "a": {"b": ["x" * 5000, prose]}, "c": "x" * 1000}
    (note,) = lower([item])
    assert "[5000 characters of data]" in note["content"]
    assert prose in note["content"]
    assert "x" * 1000 in note["content"]
    assert "x" * 1001 not in note["content"]
