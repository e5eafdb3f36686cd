"""``python -m responses_plugin``: serve with the plugin without the start-up file, find out whether that works, or
configure a client.
"""

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
    if options.command == "client-config":
        return configure_client(options)
    return diagnose(model=options.model, as_json=options.json)


def diagnose(*, model: str = "", as_json: bool = False) -> int:
    """Print the report of the doctor; the exit code is 1 when serving would fail."""
    # Ahead of the host, which sets the level to INFO: its start-up messages are not for this report.
    logging.basicConfig(level=logging.WARNING)
    from responses_plugin import diagnosis, doctor

    found = diagnosis.diagnose(model)
    sys.stdout.write((doctor.format_json(found) if as_json else doctor.format_text(found)) + "\n")
    return 1 if found.problem else 0


def configure_client(options: argparse.Namespace) -> int:
    """Print how a client reaches a running server, or write it down; the exit code is 1 when neither can be done."""
    from responses_plugin.client_config import ConfigError, configure

    try:
        text = configure(
            options.client,
            base_url=options.base_url,
            model=options.model,
            context_window=options.context_window,
            text_only=options.text_only,
            api_key_env=options.api_key_env,
            folder=options.write,
        )
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(text)
    return 0


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m responses_plugin",
        description="A complete OpenAI /v1/responses for the vllm-mlx server.",
    )
    parser.add_argument("--version", action="version", version=responses_plugin.__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
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
    _add_client_config(
        commands.add_parser(
            "client-config",
            help="print a ready configuration for a client of a running server",
            description="Print what a client needs to use a running server: for Codex its configuration and its model "
            "catalog, for a library a program that asks one question.",
        )
    )
    return parser


def _add_client_config(parser: argparse.ArgumentParser) -> None:
    from responses_plugin.client_config import CLIENTS, DEFAULT_BASE_URL, DEFAULT_CONTEXT_WINDOW

    parser.add_argument("client", choices=list(CLIENTS))
    parser.add_argument(
        "--base-url", metavar="URL", default=DEFAULT_BASE_URL, help="where the server is (default: %(default)s)"
    )
    parser.add_argument(
        "--model", metavar="NAME", default="", help="the model (default: the only one that the server has)"
    )
    parser.add_argument(
        "--context-window",
        metavar="TOKENS",
        type=int,
        default=0,
        help="how much of a conversation fits; for Codex, which compacts it at about nine tenths of that (default: what "
        f"the server tells, else {DEFAULT_CONTEXT_WINDOW})",
    )
    parser.add_argument(
        "--text-only", action="store_true", help="the model takes no images (default: what the server tells)"
    )
    parser.add_argument(
        "--write",
        metavar="FOLDER",
        default="",
        help="write Codex's files into its home folder instead of printing them",
    )
    parser.add_argument(
        "--api-key-env", metavar="NAME", default="", help="the environment variable that has the server's API key"
    )


if __name__ == "__main__":
    sys.exit(main())
