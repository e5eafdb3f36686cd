"""Images are looked at before any model work: what the host cannot open is refused by the place where it stands."""

from __future__ import annotations

import base64
import io
import threading
import warnings
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from responses_plugin.images import FORMATS, check_image_url, label_as_image
from tests.images import data_url, image_bytes
from tests.reading import error_of, image, refusal, text, user

PATH = "input[0].content[1].image_url"


def problem(url: str) -> str | None:
    """Why a URL is refused, the place and the advice left out; None if it is not."""
    error = error_of(check_image_url, url, PATH)
    if error is None:
        return None
    assert (error.status, error.param, error.code) == (400, PATH, "invalid_image")
    return error.message.partition("cannot be used: ")[2].partition(";")[0]


def as_data_url(data: bytes, label: str = "image/png") -> str:
    return f"data:{label};base64,{base64.b64encode(data).decode()}"


def encoded(image_format: str, mode: str = "RGB", size: tuple[int, int] = (3, 2)) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, image_format)
    return buffer.getvalue()


@pytest.mark.parametrize("image_format", FORMATS)
@pytest.mark.parametrize("label", ["image/png", "image/svg+xml", "text/plain;charset=utf-8", ""])
def test_the_bytes_decide_and_not_the_label(image_format: str, label: str) -> None:
    """Clients mislabel images; each format that the host opens is taken under any label."""
    assert problem(as_data_url(encoded(image_format), label)) is None


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_remote_images_are_the_hosts_business(scheme: str) -> None:
    """Fetching them, and refusing private addresses, is done there; nothing is fetched here."""
    assert problem(f"{scheme}://127.0.0.1:1/a.png") is None


PNG = base64.b64encode(image_bytes("red")).decode()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "neither a data: URL nor an http(s) URL ('no scheme')"),
        ("cat.png", "neither a data: URL nor an http(s) URL ('no scheme')"),
        ("/etc/passwd", "neither a data: URL nor an http(s) URL ('no scheme')"),
        ("file:///etc/passwd", "neither a data: URL nor an http(s) URL ('file')"),
        ("ftp://example.com/a.png", "neither a data: URL nor an http(s) URL ('ftp')"),
        (PNG, "neither a data: URL nor an http(s) URL ('no scheme')"),
        ("data:image/png;base64", "its data: URL is not base64-encoded"),
        ("data:image/png,%89PNG", "its data: URL is not base64-encoded"),
        ("data:image/png;base64,", "it is empty"),
        ("data:image/png;base64,!!!!", "it is empty"),
        (f"data:image/png;base64,{PNG[:-5]}", "its base64 cannot be decoded"),
        ("data:image/png;base64,aaa-_a==", "its base64 uses the URL-safe alphabet"),
        ("data:image/png;base64,aGVsbG8=", f"its format is not one of {', '.join(FORMATS)}"),
        (as_data_url(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), f"its format is not one of {', '.join(FORMATS)}"),
        (as_data_url(encoded("PPM")), f"its format is not one of {', '.join(FORMATS)}"),
        (as_data_url(encoded("PNG")[:20]), "it is damaged"),
    ],
)
def test_what_cannot_be_an_image_is_refused(url: str, why: str) -> None:
    """The error says what is wrong, where, and what to send instead."""
    assert why in (problem(url) or "")


def test_a_refusal_names_the_part_and_never_echoes_the_payload() -> None:
    """Inside a request too, and the message stays short however large the image is."""
    url = "data:image/jpeg;base64," + "EEpG" * 200_000
    error = refusal({"model": "m", "input": [user([text("see"), image(url)])]})
    assert (error.status, error.param, error.code) == (400, PATH, "invalid_image")
    assert "EEpG" not in error.message
    assert len(error.message) < 300
    assert "PNG, JPEG, WebP, GIF, BMP or TIFF" in error.message


def test_line_breaks_in_base64_do_not_matter() -> None:
    """Encoders wrap lines; the host skips the breaks as well."""
    assert problem("data:image/png;base64," + base64.encodebytes(image_bytes("red")).decode()) is None


@pytest.mark.parametrize("action", ["ignore", "error"])
@pytest.mark.parametrize(("limit", "refused"), [(None, False), (6, False), (5, True), (2, True)])
def test_too_many_pixels_are_refused(
    monkeypatch: pytest.MonkeyPatch, action: Literal["ignore", "error"], limit: int | None, refused: bool
) -> None:
    """Pillow warns of them or raises; either way they are refused by the header, before they are decoded."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter(action, Image.DecompressionBombWarning)
        assert problem(as_data_url(encoded("PNG"))) == ("it has too many pixels" if refused else None)


def test_checking_leaves_the_process_alone() -> None:
    """Images are checked in worker threads, and the filters for warnings belong to the whole process."""
    before = list(warnings.filters)
    threads = [threading.Thread(target=check_image_url, args=(data_url("red"), PATH)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


@given(st.sampled_from(FORMATS), st.data())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_headers_are_refused_and_never_raise(image_format: str, data: st.DataObject) -> None:
    """Whatever the bytes are, they are an image, or they are refused by name."""
    damaged = bytearray(encoded(image_format, "RGB"))
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    problem(as_data_url(bytes(damaged[: data.draw(st.integers(0, len(damaged)))])))


@given(st.text() | st.text().map("data:image/png;base64,".__add__))
@example("data:image/png;base64,é")
@example("data:,\ud800")
def test_any_text_is_a_url_or_refused(url: str) -> None:
    """A client may send anything for a URL."""
    problem(url)


def test_other_labels_are_replaced_and_only_those() -> None:
    """The payload stays, and what is labelled as an image, or is no data: URL, stays as it is."""
    assert label_as_image("data:;base64,AAAA") == "data:image/png;base64,AAAA"
    assert label_as_image("data:text/plain;charset=x;base64,AA,A") == "data:image/png;base64,AA,A"
    for url in ("data:image/tiff;base64,AAAA", "https://example.com/data:;base64,"):
        assert label_as_image(url) == url
