"""The clients that come from npm: package.json pins them, and they are installed once into this folder."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
MODULES = FOLDER / "node_modules"
INSTALL_SECONDS = 600


class ClientsMissingError(AssertionError):
    """The clients cannot be installed; says what is missing."""


@functools.cache
def installed_modules() -> Path:
    """The folder ``node_modules`` with the pinned clients; installs them if they are not there yet.

    Raises :class:`ClientsMissingError`: a test of a client that is not there has not passed.
    """
    lock = FOLDER / "package-lock.json"
    pinned = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = MODULES / ".installed"
    # Several test runs of one checkout may come here at once.
    with lock.open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != pinned:
            _install()
            stamp.write_text(pinned)
    return MODULES


def _install() -> None:
    run_npm("ci", cwd=FOLDER)


def run_npm(command: str, *arguments: str, cwd: Path) -> None:
    """Install something. Raises :class:`ClientsMissingError` with what npm said."""
    npm = shutil.which("npm")
    if npm is None:
        raise ClientsMissingError(
            "the tests of real clients need npm and Node.js 20 or newer, and there is no npm on the PATH"
        )
    done = subprocess.run(
        [npm, command, "--no-audit", "--no-fund", "--ignore-scripts", *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode:
        raise ClientsMissingError(
            f"`npm {command}` in {cwd} failed, so there are no clients to test:\n{done.stdout}{done.stderr}"
        )
