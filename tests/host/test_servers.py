"""The subprocess harness fails clearly, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.host.servers import ROOT, HostServer, HostStartError, free_port, running_host

if TYPE_CHECKING:
    from pathlib import Path


def test_a_host_that_ends_at_once_says_why(tmp_path: Path) -> None:
    """The error has the exit status and the end of the host's log."""
    with (
        pytest.raises(HostStartError, match="status 2") as caught,
        running_host(["--no-such-option"], tmp_path / "log"),
    ):
        pass
    assert "unrecognized arguments: --no-such-option" in str(caught.value)


def test_a_host_that_is_never_ready_is_given_up_and_ended(tmp_path: Path) -> None:
    """Waiting has an end, the error shows what was printed, and the process is gone."""
    log_path = tmp_path / "log"
    program = "import threading; print('loading', flush=True); threading.Event().wait()"
    with log_path.open("wb") as log_file:
        process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=log_file)
    server = HostServer(process, free_port(), log_path)
    with pytest.raises(HostStartError, match=r"not ready after 1 s(?s:.*)loading"):
        server.wait_until_ready(seconds=1)
    server.stop()
    assert process.returncode is not None
