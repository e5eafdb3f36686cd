"""An MCP server over standard input and output: the little of the protocol that a client with tools needs.

``python mcp_server.py`` has two tools: ``add`` answers with text, ``take_photo`` with text and an image. With an
argument, the photo is that file, whatever is in it.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

#: 8 x 8 pixels, all red.
RED = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP8z4AdMOEQH6QSAM1BAQ/oQeJvAAAAAElFTkSuQmCC"

TOOLS = [
    {
        "name": "add",
        "description": "Adds two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
    {
        "name": "take_photo",
        "description": "Takes a photo with the camera.",
        "inputSchema": {"type": "object", "properties": {}},
    },
]


def photo() -> str:
    return base64.b64encode(Path(sys.argv[1]).read_bytes()).decode() if sys.argv[1:] else RED


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "add":
        return {"content": [{"type": "text", "text": f"The sum is {arguments['a'] + arguments['b']}."}]}
    image = {"type": "image", "data": photo(), "mimeType": "image/png"}
    return {"content": [{"type": "text", "text": "Photo taken."}, image]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for a method that is not known."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "demo", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return {} if method == "ping" else None


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request.get("method", ""), request.get("params") or {})
        outcome = {"error": {"code": -32601, "message": "unknown method"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
