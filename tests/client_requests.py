"""Requests of real clients; ``tests/data/requests/README.md`` says where they are from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "data" / "requests"
_SHARED_TOOLS = "shared_tools"


@dataclass(frozen=True)
class ClientRequest:
    client: str
    scenario: str
    method: str
    path: str
    body: Any

    @property
    def name(self) -> str:
        """The request's name among all; files can be called by it."""
        return f"{self.client}__{self.scenario}"

    @property
    def creates_response(self) -> bool:
        """Whether it is a request for a response, also one over a websocket."""
        return self.method in ("POST", "WS") and self.path == "/v1/responses"


def client_requests() -> list[ClientRequest]:
    """All of them, in a fixed order."""
    tools = _lines(_FOLDER / f"{_SHARED_TOOLS}.jsonl")
    return [
        ClientRequest(path.stem, raw["scenario"], raw["method"], raw["path"], _with_tools(raw["body"], tools))
        for path in sorted(_FOLDER.glob("*.jsonl"))
        if path.stem != _SHARED_TOOLS
        for raw in _lines(path)
    ]


def _lines(path: Path) -> list[Any]:
    # Not splitlines(), which also splits at separators that JSON allows in strings.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _with_tools(value: Any, tools: list[Any]) -> Any:
    """The same JSON with every shared tool in its place."""
    if isinstance(value, list):
        return [_with_tools(element, tools) for element in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$tool"}:
        return _with_tools(tools[value["$tool"]], tools)
    return {key: _with_tools(element, tools) for key, element in value.items()}
