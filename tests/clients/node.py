"""Runs the clients that are written in JavaScript: a script does one job against a server and prints what it saw."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.clients.npm import ClientsMissingError, installed_modules

SCRIPTS = Path(__file__).parent / "js"
JOB_SECONDS = 60


def run_job(script: str, job: str, url: str, **options: Any) -> Any:
    """What ``js/<script>.mjs`` printed for this job, as JSON. A script that fails is a failure, with what it said."""
    installed_modules()
    node = shutil.which("node")
    if node is None:
        raise ClientsMissingError(
            "the tests of real clients need Node.js 20 or newer, and there is no node on the PATH"
        )
    done = subprocess.run(
        [node, str(SCRIPTS / f"{script}.mjs"), job, f"{url}/v1", json.dumps(options)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_SECONDS,
    )
    assert done.returncode == 0, f"{script} {job} failed:\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)
