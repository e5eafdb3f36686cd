"""The mark ``since``, for what older hosts cannot do: its tests are left out there, as if they did not exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pytest
from packaging.version import Version

from tests.matrix.releases import SUPPORTED


class Marked(Protocol):
    """A collected test."""

    def iter_markers(self, name: str) -> Iterable[pytest.Mark]: ...


def split(items: Sequence[Marked], host: str) -> tuple[list[Marked], list[Marked]]:
    """The tests to run on this release of the host, and those to leave out."""
    run: list[Marked] = []
    left_out: list[Marked] = []
    for item in items:
        releases = [_release(mark) for mark in item.iter_markers("since")]
        (left_out if any(Version(host) < Version(release) for release in releases) else run).append(item)
    return run, left_out


def _release(mark: pytest.Mark) -> str:
    (release,) = mark.args
    if release not in SUPPORTED[1:]:
        raise ValueError(f"since({release!r}): one of {', '.join(SUPPORTED[1:])}")
    return str(release)
