"""The host's app under uvicorn in this event loop, and a client for it in another process."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from tests.benchmark.exchange import Exchange, Request

_ROOT = Path(__file__).parents[2]


class Client:
    """Sends requests from another process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, folder: Path) -> None:
        self._process = process
        self._port = port
        self._folder = folder

    async def call(self, request: Request) -> Exchange:
        """Send one request and take in the answer."""
        body = self._folder / "body.json"
        body.write_bytes(request.body)
        order = {"port": self._port, "path": request.path, "body": str(body)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the client process has ended")
        answer = json.loads(line)
        return Exchange(**{**answer, "tail": answer["tail"].encode()})


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[Client]:
    """Serve the app on 127.0.0.1 and start a client."""
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    with socket.socket() as listener, TemporaryDirectory(prefix="responses-benchmark-") as folder:
        listener.bind(("127.0.0.1", 0))
        # From here on a client may connect: it is kept waiting until uvicorn accepts it.
        listener.listen()
        task = asyncio.create_task(server.serve([listener]))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.benchmark.client"),
            cwd=_ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield Client(process, listener.getsockname()[1], Path(folder))
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            server.should_exit = True
            await task
