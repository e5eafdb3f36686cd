"""Tool results as text, for engines that read nothing else."""

from __future__ import annotations

import pytest

from responses_plugin.lowering.items import IMAGE_NOT_SHOWN
from responses_plugin.lowering.tool_text import as_tool_text

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


class HostPart:
    """A part as the host's own models have it."""

    def __init__(self, **fields):
        self._fields = fields

    def model_dump(self, *, exclude_none):
        assert exclude_none
        return self._fields


@pytest.mark.parametrize("make", [dict, HostPart])
def test_text_parts_are_lines(make):
    """As the host joins the text parts of all other messages."""
    assert as_tool_text([make(type="text", text="19 degrees"), make(type="text", text="sunny")]) == "19 degrees\nsunny"


@pytest.mark.parametrize("make", [dict, HostPart])
def test_a_part_that_is_not_text_is_a_line_that_says_so(make):
    """The model learns that something is missing, and no payload gets into the prompt."""
    text = as_tool_text([make(**PICTURE), make(type="text", text="done"), make(type="video_url", video_url="a.mp4")])
    assert text.splitlines() == [
        IMAGE_NOT_SHOWN,
        "done",
        "[The tool returned a part of type 'video_url'; it was not passed on because this model reads text only]",
    ]


def test_plain_strings_are_text():
    """Some clients send strings for parts."""
    assert as_tool_text(["19 degrees", {"type": "text", "text": "sunny"}]) == "19 degrees\nsunny"


def test_nothing_is_no_text():
    """An empty list is an empty result."""
    assert as_tool_text([]) == ""
