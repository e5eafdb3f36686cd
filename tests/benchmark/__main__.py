"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from vllm_mlx.server import app

from tests.benchmark import asgi, blocking, first_event, parsing, prefix, throughput
from tests.benchmark.report import Section, as_json, as_text, failed
from tests.benchmark.server import serving

SECTIONS = ("stream", "whole", "parsing", "first event", "blocking", "prefix")


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; the defaults are what the targets are meant for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark", description=throughput.__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="which sections (default: all)")
    add("--tokens", nargs="+", type=int, default=[1000, 16000], metavar="N", help="lengths of the answers")
    add("--images", type=int, default=100, metavar="N", help="images of the large request")
    add("--image-bytes", type=int, default=1_000_000, metavar="N", help="bytes of each")
    add("--items", type=int, default=2000, metavar="N", help="items of the replayed history")
    add("--prefill", type=float, default=2.0, metavar="SECONDS", help="how long the engine reads the prompt")
    add("--turns", type=int, default=5, metavar="N", help="how often everything is measured; medians are shown")
    add("--routes", nargs="+", choices=prefix.ROUTES, default=list(prefix.ROUTES), help="of prefix (default: all)")
    add("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args(arguments)


async def run(chosen: argparse.Namespace) -> list[Section]:
    """Measure the sections that were asked for."""
    async with serving(app) as client:
        calls: dict[str, throughput.Call] = {"in process": partial(asgi.call, app), "uvicorn": client.call}
        measures = {
            "stream": lambda: throughput.measure_streams(calls, chosen.tokens, chosen.turns),
            "whole": lambda: throughput.measure_whole(calls, chosen.tokens, chosen.turns),
            "parsing": lambda: parsing.measure(chosen.images, chosen.image_bytes, chosen.turns),
            "first event": lambda: first_event.measure(client.call, chosen.prefill, chosen.turns),
            "blocking": lambda: blocking.measure(
                client.call,
                images=chosen.images,
                image_bytes=chosen.image_bytes,
                tokens=max(chosen.tokens),
                items=chosen.items,
                turns=chosen.turns,
            ),
            "prefix": lambda: asyncio.to_thread(prefix.measure, chosen.routes),
        }
        sections = []
        for name in SECTIONS:
            if name in chosen.only:
                sys.stderr.write(f"measuring: {name}\n")
                sections.append(await measures[name]())
        return sections


def main() -> int:
    """Measure and print; the exit code is 1 when a target was missed that is counted, not timed."""
    chosen = options()
    # The host logs each request: that is part of what is measured, and nobody wants to read it.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        logging.basicConfig(level=logging.INFO, stream=nowhere, force=True)
        sections = asyncio.run(run(chosen))
    sys.stdout.write(json.dumps(as_json(sections), indent=2) + "\n" if chosen.json else as_text(sections))
    return int(failed(sections))


if __name__ == "__main__":
    sys.exit(main())
