"""``encrypted_content``: our own blobs are read back, everything else is told apart."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.protocol.sealed import seal, unseal


@given(st.text())
def test_a_thought_comes_back_as_it_was(text: str) -> None:
    """Whatever is in it; the blob itself is plain ASCII without white space."""
    blob = seal(text)
    assert unseal(blob) == text
    assert blob.isascii()
    assert blob.split() == [blob]


@pytest.mark.parametrize(
    "blob",
    [
        "",
        "gAAAAABo-someone-elses",
        "vmr1",
        "vmr1.",
        "vmr1.!!!",
        "vmr1.é",
        "vmr1.AAAA",
        "vmr2." + seal("a").partition(".")[2],
        seal("a")[:-6],
        "vmr1." + base64.urlsafe_b64encode(zlib.compress(b"\xff")).decode(),
    ],
)
def test_anything_else_says_nothing(blob: str) -> None:
    """A blob of another server or version, or a damaged one, is not an error: the client only keeps it for us."""
    assert not unseal(blob)


def test_a_bomb_does_not_go_off() -> None:
    """A small blob that unpacks to gigabytes is cut off where no thought would be that long."""
    packed = zlib.compressobj(9)
    data = b"".join(packed.compress(b"a" * 1_000_000) for _ in range(64)) + packed.flush()
    text = unseal("vmr1." + base64.urlsafe_b64encode(data).decode())
    assert text is None or len(text) <= 16 * 1024 * 1024
