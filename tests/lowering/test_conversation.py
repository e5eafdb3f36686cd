"""A whole request: what counts as input, and where an image of it stands."""

from __future__ import annotations

from typing import Any

import pytest

from responses_plugin.lowering.conversation import locate_remote_image
from tests.images import data_url
from tests.reading import assistant, call, developer, image, lower, output, read, reasoning, refusal, text, user

URL = "https://example.com/cat.png"
BLANK: list[Any] = [
    [],
    "",
    " \n",
    [user("")],
    [user([])],
    [user(None)],
    [{"role": "user"}],
    [user([text(" "), text("\n")]), developer("")],
    [{"role": "assistant", "content": [{"type": "refusal", "refusal": ""}]}],
    [{"type": "reasoning", "summary": [], "encrypted_content": "foreign"}],
]


@pytest.mark.parametrize("items", BLANK)
@pytest.mark.parametrize("fields", [{}, {"instructions": None}, {"instructions": " "}])
def test_a_request_that_says_nothing_is_refused(items: Any, fields: dict[str, Any]) -> None:
    """Before any model work: there is nothing to answer."""
    error = refusal({"model": "m", "input": items, **fields})
    assert (error.status, error.param, error.code) == (400, "input", "missing_required_parameter")


def test_input_may_be_missing_like_empty() -> None:
    """A request without the field says as little as one with an empty list."""
    assert refusal({"model": "m"}).param == "input"
    assert refusal({"model": "m", "input": None}).param == "input"


@pytest.mark.parametrize("items", [items for items in BLANK if items != " \n"])
def test_instructions_alone_are_input(items: Any) -> None:
    """Clients probe with them, and an empty input."""
    assert lower(items, instructions="Say hi.")[0] == {"role": "system", "content": "Say hi."}


@pytest.mark.parametrize(
    "item",
    [
        user("hi"),
        user([image(data_url("red"))]),
        user([{"type": "video_url", "video_url": {"url": URL}}]),
        user([{"type": "hologram"}]),
        developer("hi"),
        assistant("hi"),
        reasoning("hm"),
        call("a"),
        output("a", ""),
        {"type": "web_search_call"},
    ],
)
def test_anything_that_reaches_the_model_is_input(item: dict[str, Any]) -> None:
    """Text, media, a call, an output or a thought, alone: each says something."""
    assert lower([item])


def test_a_remote_image_is_found_by_its_url() -> None:
    """The host words its errors about a URL, not about a place; the client wants the place."""
    other = {"type": "image_url", "image_url": {"url": "http://example.com/b.png"}}
    items = [user("hi"), user([text(URL), image(URL)]), call("a"), output("a", [image(data_url("red")), other])]
    _, entries = read({"model": "m", "input": items})
    assert locate_remote_image(entries, f"cannot load {URL}: 404") == "input[1].content[1].image_url"
    assert locate_remote_image(entries, "http://example.com/b.png") == "input[3].output[1].image_url"
    assert locate_remote_image(entries, "https://example.com/") is None
    assert locate_remote_image(entries, "data:image/png;base64,") is None
