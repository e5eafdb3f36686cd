"""A client in a process of its own, so that its work does not count as the server's.

It reads requests from its standard input, one JSON object a line, and writes what came of each::

    {"port": 8000, "path": "/v1/responses", "body": "/tmp/body.json"}
    {"status": 200, "size": 123, "first_byte_seconds": 0.01, "seconds": 0.2, "tail": "…"}

Bytes are counted as they come from the socket and not looked at: a client that parses events is slower than the server.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.benchmark.exchange import Exchange

_BUFFER_BYTES = 1 << 20


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        exchange = post(order["port"], order["path"], Path(order["body"]).read_bytes())
        answer = {**asdict(exchange), "tail": exchange.tail.decode("utf-8", "replace")}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def post(port: int, path: str, body: bytes) -> Exchange:
    """One request on a connection of its own, read to its end."""
    exchange = Exchange()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        started = time.perf_counter()
        connection.sendall(_head(path, len(body)) + body)
        buffer = bytearray(_BUFFER_BYTES)
        head = b""
        while size := connection.recv_into(buffer):
            if not exchange.size:
                # The status line and headers come first, and the body right behind them or later.
                head += bytes(buffer[:size])
                before, end, _ = head.partition(b"\r\n\r\n")
                if not end:
                    continue
                exchange.status = int(before.split(b" ", 2)[1])
                data = head[len(before) + len(end) :]
                if not data:
                    continue
                exchange.first_byte_seconds = time.perf_counter() - started
            else:
                data = bytes(memoryview(buffer)[max(0, size - 256) : size])
                exchange.size += size - len(data)
            exchange.take(data)
        exchange.seconds = time.perf_counter() - started
    # The last chunk of a chunked body is empty: what stands before it is the end of the answer.
    exchange.tail = exchange.tail.removesuffix(b"0\r\n\r\n")
    return exchange


def _head(path: str, length: int) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


if __name__ == "__main__":
    main()
