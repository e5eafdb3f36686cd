"""Codex, run as a user runs it: ``codex exec`` in a workspace, configured by what ``client-config`` prints.

Never its full-screen interface, which leaves a process behind.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from responses_plugin.__main__ import main
from tests.clients.npm import ClientsMissingError, installed_modules
from tests.host.scripted import ScriptedHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from tests.host.scripted import Script

RUN_SECONDS = 60.0
#: The environment variable that names another Codex than the pinned one.
CODEX = "RESPONSES_TEST_CODEX"


def find_codex() -> Path:
    """The program that the tests run."""
    named = os.environ.get(CODEX)
    return Path(named) if named else codex_in(installed_modules())


def codex_in(modules: Path) -> Path:
    """The program itself, in a folder ``node_modules``; the npm package starts it from a script of its own."""
    found = sorted(modules.glob("@openai/codex-*/vendor/*/bin/codex"))
    if not found:
        raise ClientsMissingError(f"{modules} has no Codex for this machine: npm installs it as an optional dependency")
    return found[0]


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
        self.add_config("[analytics]\nenabled = false\n[features]\nplugins = false\n")
        config.write_text("check_for_update_on_startup = false\n" + config.read_text(encoding="utf-8"))

    def add_config(self, tables: str) -> None:
        """Add tables to the configuration."""
        with (self.home / "config.toml").open("a", encoding="utf-8") as config:
            config.write(f"\n{tables}")

    def edit_catalog(self, **fields: Any) -> None:
        """Change what the catalog says about the model."""
        path = self.home / "local-models.json"
        catalog = json.loads(path.read_text(encoding="utf-8"))
        catalog["models"][0].update(fields)
        path.write_text(json.dumps(catalog), encoding="utf-8")

    def run(self, *arguments: str | Path) -> Run:
        """Run ``codex exec ARGUMENTS`` to its end."""
        return self.finish(self.start(*arguments))

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """The same without waiting for it; :meth:`finish` does."""
        options = ["--skip-git-repo-check", "--json", "--strict-config", "--sandbox", "danger-full-access"]
        return subprocess.Popen(
            [str(find_codex()), "exec", *options, *map(str, arguments)],
            cwd=self.workspace,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Run:
        """Wait for the end of a run."""
        try:
            stdout, stderr = process.communicate(timeout=RUN_SECONDS)
        finally:
            process.kill()
        return Run(process.returncode, [json.loads(line) for line in stdout.splitlines()], stderr)

    def _environment(self) -> dict[str, str]:
        """The least that Codex needs, so that no setting of whoever runs the tests takes part."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        # Its own home, for the shells that it starts read their start-up files there.
        return {**kept, "HOME": str(self.home), "CODEX_HOME": str(self.home), **self.environment}


@dataclass
class Sent:
    """One request of a client, and how it was answered."""

    path: str
    headers: dict[str, str]
    body: bytes = b""
    status: int = 0
    answer_headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> dict[str, Any]:
        body = json.loads(self.body)
        assert isinstance(body, dict)
        return body

    def inputs(self, item_type: str) -> list[dict[str, Any]]:
        """The input items of one type."""
        return [item for item in self.json["input"] if item.get("type") == item_type]


class RecordingHost(ScriptedHost):
    """The scripted host, with the requests as they came over the wire."""

    def __init__(self, *scripts: Script, **options: Any) -> None:
        super().__init__(*scripts, **options)
        self.sent: list[Sent] = []
        #: Called with each request when its answer begins.
        self.on_answer: Callable[[Sent], None] = lambda _: None

    @property
    def app(self) -> Any:
        """The host's app, listening in on what is posted."""
        app = super().app

        async def record(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["method"] != "POST":
                await app(scope, receive, send)
                return
            sent = Sent(scope["path"], _readable(scope["headers"]))
            self.sent.append(sent)

            async def receive_body() -> Any:
                message = await receive()
                sent.body += message.get("body", b"")
                return message

            async def send_answer(message: Any) -> None:
                if message["type"] == "http.response.start":
                    sent.status = message["status"]
                    sent.answer_headers = _readable(message["headers"])
                    self.on_answer(sent)
                await send(message)

            await app(scope, receive_body, send_answer)

        return record


def _readable(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode().lower(): value.decode() for name, value in headers}
