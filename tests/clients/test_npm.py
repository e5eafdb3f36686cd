"""A client that cannot be installed is a failure that says what is missing, never a test that passes or is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients import npm

if TYPE_CHECKING:
    from pathlib import Path


def test_without_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message names what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(npm.ClientsMissingError, match=r"need npm and Node\.js 20 or newer"):
        npm._install()


def test_an_installation_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What npm said is in the message."""
    (tmp_path / "npm").write_text("#!/bin/sh\necho 'npm error code E404' >&2\nexit 1\n")
    (tmp_path / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(npm.ClientsMissingError, match="npm error code E404"):
        npm._install()
