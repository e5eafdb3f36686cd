"""Codex, run as a user runs it: ``codex exec`` in a workspace, configured by what ``client-config`` prints.

Never its full-screen interface, which leaves a process behind.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from responses_plugin.__main__ import main
from tests.clients.npm import ClientsMissing, installed_modules
from tests.host.scripted import SCRIPTED_MODEL, Script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest

RUN_SECONDS = 60.0
#: About the size of tokens, and no divisor of any marker's length: markers are cut anywhere.
PIECE = 5


def find_codex() -> Path:
    """The program itself; the npm package starts it from a script of its own."""
    modules = installed_modules()
    found = sorted(modules.glob("@openai/codex-*/vendor/*/bin/codex"))
    if not found:
        raise ClientsMissing(f"{modules} has no Codex for this machine: npm installs it as an optional dependency")
    return found[0]


def says(text: str, **options: Any) -> Script:
    """The model writes this, token by token."""
    return Script([text[start : start + PIECE] for start in range(0, len(text), PIECE)], **options)


def calls(*named: tuple[str, Mapping[str, Any]], before: str = "", **options: Any) -> Script:
    """The model calls these tools at once, under the names that it knows them by."""
    texts = [
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" for name, arguments in named
    ]
    return says(before + "\n".join(texts), **options)


@dataclass
class Run:
    """What became of one ``codex exec``."""

    exit_code: int
    #: What ``--json`` printed.
    events: list[dict[str, Any]]
    stderr: str

    def __str__(self) -> str:
        lines = "\n".join(json.dumps(event) for event in self.events)
        return f"exit code {self.exit_code}\n{lines}\n{self.stderr}"

    def items(self, item_type: str) -> list[dict[str, Any]]:
        """The completed items of one type."""
        done = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in done if item["type"] == item_type]

    @property
    def messages(self) -> list[str]:
        """The texts of the agent."""
        return [item["text"] for item in self.items("agent_message")]

    @property
    def errors(self) -> list[str]:
        """What was shown as an error, retries included."""
        return [event["message"] for event in self.events if event["type"] == "error"]

    @property
    def usage(self) -> dict[str, int]:
        (usage,) = [event["usage"] for event in self.events if event["type"] == "turn.completed"]
        assert isinstance(usage, dict)
        return usage

    @property
    def thread_id(self) -> str:
        (thread_id,) = [event["thread_id"] for event in self.events if event["type"] == "thread.started"]
        assert isinstance(thread_id, str)
        return thread_id


@dataclass
class Codex:
    """One user's Codex: a home folder with a configuration, and a workspace."""

    home: Path
    workspace: Path
    environment: dict[str, str] = field(default_factory=dict)

    def configure(self, url: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        """Write what ``client-config codex`` prints for the server at this URL."""
        capsys.readouterr()
        assert main(["client-config", "codex", "--base-url", f"{url}/v1", *arguments]) == 0
        for section in capsys.readouterr().out.split("# --- ~/.codex/")[1:]:
            name, _, text = section.partition(" ---\n")
            (self.home / name).write_text(text, encoding="utf-8")
        # What only a test needs: no word to anyone but the server.
        config = self.home / "config.toml"
        quiet = "check_for_update_on_startup = false\n"
        config.write_text(quiet + config.read_text(encoding="utf-8") + "\n[analytics]\nenabled = false\n")

    def edit_catalog(self, **fields: Any) -> None:
        """Change what the catalog says about the model."""
        path = self.home / "local-models.json"
        catalog = json.loads(path.read_text(encoding="utf-8"))
        catalog["models"][0].update(fields)
        path.write_text(json.dumps(catalog), encoding="utf-8")

    def run(self, *arguments: str | Path, command: Sequence[str] = ("exec",)) -> Run:
        """Run ``codex exec ARGUMENTS`` to its end."""
        options = ["--skip-git-repo-check", "--json", "-c", 'sandbox_mode="danger-full-access"']
        done = subprocess.run(
            [str(find_codex()), *command, *options, *map(str, arguments)],
            cwd=self.workspace,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return Run(done.returncode, events, done.stderr)

    def _environment(self) -> dict[str, str]:
        """The least that Codex needs, so that no setting of whoever runs the tests takes part."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        # Its own home, for the shells that it starts read their start-up files there.
        return {**kept, "HOME": str(self.home), "CODEX_HOME": str(self.home), **self.environment}


__all__ = ["SCRIPTED_MODEL", "Codex", "Run", "calls", "find_codex", "says"]
