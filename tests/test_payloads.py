"""Long payloads are taken out of a body and put back, and nobody can tell that they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from responses_plugin.parsing import parse_body
from responses_plugin.payloads import put_back, take_out
from responses_plugin.protocol.errors import RequestError

PAYLOAD = "QUJD" * 20_000
URL = f"data:image/png;base64,{PAYLOAD}"


def parsed(text: bytes) -> tuple[Any, dict[str, str]]:
    """What the text says, read with its payloads taken out, and those."""
    rest, strings = take_out(text)
    return put_back(from_json(rest), strings), strings


@pytest.mark.parametrize(
    "value",
    [
        {"image_url": URL},
        {"image_url": {"url": URL, "detail": "low"}},
        [URL, "a", URL + "QUJD", {"a": [URL]}],
        {URL: "also as a name"},
        {"text": f'He said "{URL}".', "image_url": URL},
        {"text": "what does ;base64, mean?", "image_url": URL},
        {"text": f"Zażółć gęślą jaźń {URL} 🙂"},
        {"": "", "image_url": URL},
    ],
)
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_nothing_is_changed(value: Any, ensure_ascii: bool) -> None:
    """Wherever the payload stands, and whatever is around it."""
    assert parsed(json.dumps(value, ensure_ascii=ensure_ascii).encode())[0] == value


def test_long_payloads_are_taken_out() -> None:
    """The parser does not see them, which is what this is for."""
    rest, strings = take_out(json.dumps([URL, {"url": URL}]).encode())
    assert len(rest) < 200
    assert list(strings.values()) == [URL, URL]


@pytest.mark.parametrize("value", [{"image_url": "data:image/png;base64,QUJD"}, {"text": PAYLOAD}, {"text": "hi"}])
def test_whatever_else_is_left_alone(value: Any) -> None:
    """A body without long payloads is the same bytes as before."""
    text = json.dumps(value).encode()
    assert take_out(text) == (text, {})


@pytest.mark.parametrize(
    "string",
    [
        URL.replace("QUJD", r"\/\/BD", 1),
        rf"\"{URL}",
        rf"{URL}\n",
        rf"{URL}\"",
        rf"\\{URL}",
    ],
)
def test_strings_with_escapes_are_left_to_the_parser(string: str) -> None:
    """They do not mean what they spell."""
    text = f'{{"image_url": "{string}"}}'.encode()
    value, strings = parsed(text)
    assert value == json.loads(text)
    assert strings == {}


@pytest.mark.parametrize(
    "text",
    [
        f'{{"image_url": "{URL}',
        f'{{"image_url": {URL}"}}',
        f"{URL}",
        f'"a" {URL} "b"',
        f'{{"image_url": "{URL}\n"}}',
        f'{{"a": "b" "{URL}"}}',
    ],
)
def test_invalid_json_stays_invalid(text: str) -> None:
    """With a payload in it, it is refused as without."""
    with pytest.raises(RequestError) as refused:
        parse_body(text.encode())
    assert refused.value.code == "invalid_json"


def test_bytes_that_are_no_text_are_refused() -> None:
    """Also within a payload."""
    with pytest.raises(RequestError) as refused:
        parse_body(b'{"model": "m", "input": "' + URL.encode() + b'\xff"}')
    assert refused.value.code == "invalid_json"


def test_halves_of_surrogates_beside_a_payload_are_replaced() -> None:
    """The rest of the body is treated as ever."""
    request = parse_body(json.dumps({"model": "m", "input": [URL, "cut \ud83d"]}).encode())
    assert request.input == [URL, "cut \ufffd"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=8)
    | st.sampled_from([URL, ";base64,", '"', "\\"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(value=json_values, ensure_ascii=st.booleans())
@settings(deadline=None)
def test_any_value_is_read_as_it_is(value: Any, ensure_ascii: bool) -> None:
    """With payloads and pieces of them strewn in."""
    text = json.dumps(value, ensure_ascii=ensure_ascii).encode("utf-8", "replace")
    assert parsed(text)[0] == from_json(text)
