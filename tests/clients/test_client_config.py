"""What ``client-config`` prints for a library is a program that runs. For Codex see test_codex.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from responses_plugin.__main__ import main
from responses_plugin.client_config import CLIENTS
from tests.clients.npm import FOLDER, ClientsMissingError, installed_modules
from tests.clients.scripts import says
from tests.host.scripted import ScriptedHost

if TYPE_CHECKING:
    from collections.abc import Sequence

IN_JAVASCRIPT = ("openai-js", "vercel")
LIBRARIES = [client for client in CLIENTS if client != "codex"]


def interpreter(client: str) -> Sequence[str]:
    """What runs the program, given as one more argument."""
    if client not in IN_JAVASCRIPT:
        return [sys.executable, "-c"]
    installed_modules()
    node = shutil.which("node")
    if node is None:
        raise ClientsMissingError(
            "the tests of real clients need Node.js 20 or newer, and there is no node on the PATH"
        )
    return [node, "--input-type=module", "-e"]


@pytest.mark.parametrize(
    ("client", "key"), [*((client, "") for client in LIBRARIES), ("openai-python", "s3cret"), ("openai-js", "s3cret")]
)
def test_the_printed_program_runs(
    client: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As printed, it asks the server and prints the answer, with the server's key where there is one."""
    monkeypatch.setenv("HOUSE_KEY", key)
    with ScriptedHost(says("Hello from here."), api_key=key or None) as host, host.serving() as url:
        arguments = ["client-config", client, "--base-url", f"{url}/v1"]
        assert main([*arguments, *(["--api-key-env", "HOUSE_KEY"] if key else [])]) == 0
        done = subprocess.run(
            [*interpreter(client), capsys.readouterr().out],
            cwd=FOLDER,
            env={name: os.environ[name] for name in ("PATH", "HOME", "HOUSE_KEY") if name in os.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Hello from here.\n"
    (call,) = host.engine.calls
    assert call.messages[-1] == {"role": "user", "content": "Hello!"}
