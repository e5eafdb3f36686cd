"""The releases of the host, downloaded and unpacked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "hosts"

#: Those that the plugin supports, oldest first.
SUPPORTED = ("0.3.0", "0.4.0", "0.4.1", "0.5.0", "0.6.0")


@dataclass(frozen=True)
class Release:
    """One release of the host, and where its packages are."""

    version: str
    folder: Path

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run this Python with this release of the host."""
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        return subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=environment, text=True, check=False, **options
        )

    def doctor(self) -> dict[str, Any]:
        """What ``doctor`` says there. Raises ``RuntimeError`` when it says nothing, or speaks of another release."""
        done = self.run("-m", "responses_plugin", "doctor", "--json", capture_output=True)
        try:
            report: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise RuntimeError(f"doctor failed on {self.version}:\n{done.stdout}{done.stderr}") from None
        if report["host_version"] != self.version:
            raise RuntimeError(f"{self.folder} holds {report['host_version']}, not {self.version}")
        return report


def fetch(versions: Sequence[str], cache: Path = CACHE) -> list[Release]:
    """The releases, downloaded into ``cache`` where they are not there yet."""
    return [Release(version, _unpacked(version, cache)) for version in versions]


def _unpacked(version: str, cache: Path) -> Path:
    folder = cache / version
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    options = ["--no-deps", "--only-binary", ":all:", "--dest", str(cache)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, f"vllm-mlx=={version}"]
    subprocess.run(command, check=True)
    (wheel,) = cache.glob(f"vllm_mlx-{version}-*.whl")
    # Under another name until it is complete, so that a broken-off run leaves nothing that looks like a release.
    unfinished = cache / f"{version}.unfinished"
    zipfile.ZipFile(wheel).extractall(unfinished)
    unfinished.rename(folder)
    return folder
