"""Serve the bundled tiny model with the plugin, and print a request to try as soon as it answers.

``make demo`` runs this. The model is a toy of a million parameters: it names the colour of an image, calls a few
tools, and knows nothing else.
"""

from __future__ import annotations

import argparse
import base64
import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODEL = "tests/checkpoints/tiny_vlm"
HOST = "127.0.0.1"


def main() -> int:
    parser = argparse.ArgumentParser(description="Serve the bundled tiny model with the plugin.")
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    if is_taken(port):
        print(f"Port {port} of {HOST} is in use. Choose another one: make demo PORT={port + 1}", file=sys.stderr)
        return 1
    options = ["--mllm", "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--offline"]
    command = ["-m", "responses_plugin", "serve", MODEL, *options, "--host", HOST, "--port", str(port)]
    print(f"Starting: python {' '.join(command)}", flush=True)
    server = subprocess.Popen([sys.executable, *command], cwd=ROOT)  # noqa: S603 - no input of anybody's
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    threading.Thread(target=announce, args=(server, port), daemon=True).start()
    while True:
        try:
            return server.wait()
        except KeyboardInterrupt:
            # The terminal has sent it to the server as well, which is shutting down.
            continue


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def announce(server: subprocess.Popen[bytes], port: int) -> None:
    """Print the request once the server answers."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2):
                break
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    else:
        return
    print(
        f"\nReady. Show the model a red square, from another terminal:\n\n{curl(port)}\n\n"
        'Its answer holds "The dominant color is red." For the event stream, add "stream": true and curl -N.\n'
        "Ctrl-C stops the server.\n",
        flush=True,
    )


def curl(port: int) -> str:
    """A command for any POSIX shell."""
    question = {"type": "input_text", "text": "What is the dominant color of this image?"}
    image = {"type": "input_image", "image_url": data_url(red=215, green=30, blue=35)}
    # A model this small babbles now and then when it is sampled.
    body = {"model": MODEL, "temperature": 0, "input": [{"role": "user", "content": [question, image]}]}
    url = f"http://{HOST}:{port}/v1/responses"
    return f"curl -s {url} -H 'Content-Type: application/json' -d '{json.dumps(body, indent=1)}'"


def data_url(*, red: int, green: int, blue: int, side: int = 64) -> str:
    """A PNG of one colour, written by hand so that it stays short."""
    rows = (b"\0" + bytes([red, green, blue]) * side) * side

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


if __name__ == "__main__":
    sys.exit(main())
