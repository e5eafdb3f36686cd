"""``python -m responses_plugin``: serve with the plugin without the start-up file, or find out whether that works."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

import responses_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the process's exit code. ``arguments`` default to those of the process."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["serve"]:
        # Not an argparse sub-command of ours: every argument, --help included, is for the host's own parser.
        from responses_plugin.hooks import server_flag

        server_flag.serve(arguments[1:])
        return 0
    options = _create_parser().parse_args(arguments)
    return diagnose(model=options.model, as_json=options.json)


def diagnose(*, model: str = "", as_json: bool = False) -> int:
    """Print the report of the doctor; the exit code is 1 when serving would fail."""
    # Ahead of the host, which sets the level to INFO: its start-up messages are not for this report.
    logging.basicConfig(level=logging.WARNING)
    from responses_plugin import diagnosis, doctor

    found = diagnosis.diagnose(model)
    sys.stdout.write((doctor.format_json(found) if as_json else doctor.format_text(found)) + "\n")
    return 1 if found.problem else 0


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m responses_plugin",
        description="A complete OpenAI /v1/responses for the vllm-mlx server.",
    )
    parser.add_argument("--version", action="version", version=responses_plugin.__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser(
        "serve",
        add_help=False,
        help="serve a model with the plugin; takes every option of `vllm-mlx serve`, which `serve --help` lists",
    )
    doctor = commands.add_parser(
        "doctor",
        help="tell whether serving would work, without a model",
        description="Print the host's version, each seam and its state, the registered hooks, tool kinds and plugins; "
        "with --model, what the model's chat template refuses and what is done instead. "
        "The exit code is 1 when serving would fail.",
    )
    doctor.add_argument("--model", metavar="PATH", default="", help="a model folder, of which no weights are read")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
