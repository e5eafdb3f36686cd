"""The seam of the command line: ``--responses-plugin``, and the plugin's own options.

The host builds its parser in ``create_parser`` and acts on it in ``serve_command``, looked up as globals of
``vllm_mlx.cli`` by its ``main``; wrapping these two is enough. Run as ``__main__`` the host has built its parser before
we hear of it, so there the parser it is about to use is extended instead (see :mod:`responses_plugin.bootstrap`).

Until the flag is on the command line no plugin is loaded and nothing else of the host is touched.
"""

from __future__ import annotations

import argparse
import functools
import logging
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from responses_plugin.bootstrap import SERVER_MODULE
from responses_plugin.hooks.host import Host, host_version
from responses_plugin.hookspecs import hookimpl
from responses_plugin.patching import HostMismatch, PatchSet, SeamState, SeamStatus, SymbolPatch
from responses_plugin.protocol.dialects import DIALECTS
from responses_plugin.settings import OPTION_PREFIX, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

logger = logging.getLogger(__name__)

FLAG = "--responses-plugin"
OUR_OPTIONS = "--responses-"
FLAG_DEST = "responses_plugin"
GROUP_TITLE = "Responses API plugin"
SERVE = "serve"
PARSER_SEAM = "command line: parser"
SERVE_SEAM = "command line: serve"


# --- The plugin's own options --------------------------------------------------------------------------------------


@hookimpl(trylast=True)
def responses_add_options(parser: argparse.ArgumentParser) -> None:
    """Contribute an option for each of our settings; the defaults shown are those of :class:`Settings`."""
    defaults = Settings()
    group = _option_group(parser)
    group.add_argument(
        "--responses-keepalive",
        dest=OPTION_PREFIX + "keepalive_seconds",
        type=_at_least_zero(float),
        default=defaults.keepalive_seconds,
        metavar="SECONDS",
        help="Send a keepalive event when a stream has been silent for this long, so that clients and proxies do not "
        f"give up during a long prefill; 0 sends none (default: {defaults.keepalive_seconds:g})",
    )
    group.add_argument(
        "--responses-store-entries",
        dest=OPTION_PREFIX + "max_stored_responses",
        type=_at_least_zero(int),
        default=defaults.max_stored_responses,
        metavar="N",
        help="How many responses to keep for previous_response_id and GET /v1/responses/{id}; the oldest goes first "
        f"(default: {defaults.max_stored_responses})",
    )
    group.add_argument(
        "--responses-store-bytes",
        dest=OPTION_PREFIX + "max_stored_bytes",
        type=_at_least_zero(int),
        default=defaults.max_stored_bytes,
        metavar="BYTES",
        help="How many bytes the stored responses may take together, images included; the oldest goes first "
        f"(default: {defaults.max_stored_bytes}, 1 GiB)",
    )
    group.add_argument(
        "--responses-max-body-bytes",
        dest=OPTION_PREFIX + "max_body_bytes",
        type=_at_least_zero(int),
        default=defaults.max_body_bytes,
        metavar="BYTES",
        help="How many bytes a request may have, images included; a larger one is refused with 413 "
        f"(default: {defaults.max_body_bytes}, 256 MiB)",
    )
    group.add_argument(
        "--responses-dialect",
        dest=OPTION_PREFIX + "dialect",
        choices=list(DIALECTS),
        default=defaults.dialect,
        help="Which specification the answers follow where they contradict each other (default: "
        f"{defaults.dialect}, which OpenAI's clients and Codex need)",
    )
    group.add_argument(
        "--responses-trace-hooks",
        dest=OPTION_PREFIX + "trace_hooks",
        action="store_true",
        help="Log every hook call of the plugins with its arguments and result",
    )


def _at_least_zero(number: type[int | float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = number(text)
        if not 0 <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"must be 0 or more, got {text}")
        return value

    # argparse names the type in its message for a text that is no number at all.
    parse.__name__ = number.__name__
    return parse


# --- The flag ------------------------------------------------------------------------------------------------------


def attach_to_cli(cli: ModuleType) -> PatchSet:
    """Give ``vllm-mlx serve`` the flag, by wrapping the two functions of ``cli`` that build and act on its parser.

    On a host whose command line does not fit the process ends when the flag was asked for; when it was not, the host
    is left as it is.
    """
    patches = PatchSet(host_version(), flag_patches(cli))
    try:
        patches.apply()
    except HostMismatch as mismatch:
        _stop_if_asked_for(mismatch)
    return patches


def flag_patches(cli: ModuleType) -> list[SymbolPatch]:
    """The two patches of the command line."""
    remove_when = "the host loads plugins by entry point and lets them add options to serve"

    def add_flag(create_parser: Callable[[], argparse.ArgumentParser]) -> Callable[[], argparse.ArgumentParser]:
        @functools.wraps(create_parser)
        def create_parser_with_flag() -> argparse.ArgumentParser:
            parser = create_parser()
            _offer_flag(lambda: serve_parser(parser), serves=SERVE in sys.argv)
            return parser

        return create_parser_with_flag

    def obey_flag(serve_command: Callable[[argparse.Namespace], Any]) -> Callable[[argparse.Namespace], Any]:
        @functools.wraps(serve_command)
        def serve_command_with_flag(args: argparse.Namespace) -> Any:
            _obey_flag(args)
            return serve_command(args)

        return serve_command_with_flag

    return [
        SymbolPatch(
            seam=PARSER_SEAM,
            owner=cli,
            name="create_parser",
            parameters=(),
            replace=add_flag,
            remove_when=remove_when,
        ),
        SymbolPatch(
            seam=SERVE_SEAM,
            owner=cli,
            name="serve_command",
            parameters=("args",),
            replace=obey_flag,
            remove_when=remove_when,
        ),
    ]


def parse_args_of_main(parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> argparse.Namespace:
    """Parse the command line of a host module that runs as ``__main__``, and obey the flag if it is there.

    ``parser`` is the one that the module built; the arguments are those of its ``parse_args``.
    """
    spec = sys.modules["__main__"].__spec__
    is_server = spec is not None and spec.name == SERVER_MODULE
    _offer_flag(lambda: parser if is_server else serve_parser(parser), serves=is_server or SERVE in sys.argv)
    namespace: argparse.Namespace = parser.parse_args(*args, **kwargs)
    _obey_flag(namespace)
    return namespace


def serve(arguments: Sequence[str]) -> None:
    """Run ``vllm-mlx serve`` with ``arguments`` and the flag, in this process and without the start-up file."""
    flag = [] if FLAG in arguments else [FLAG]
    sys.argv = ["vllm-mlx", SERVE, *flag, *arguments]
    cli = Host().cli
    attach_to_cli(cli)
    cli.main()


def command_line_states(cli: ModuleType) -> list[SeamState]:
    """Whether the flag can be added to this command line; changes nothing."""
    states = [patch.inspect() for patch in flag_patches(cli)]
    if states[0].status is SeamStatus.TAKEN:
        try:
            serve_parser(cli.create_parser())
        except HostMismatch as mismatch:
            states[:1] = mismatch.misfits
    return states


def serve_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser of the sub-command ``serve``. Raises :class:`HostMismatch` when there is none."""
    commands: list[str] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way from a parser to its sub-parsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            if SERVE in action.choices:
                found: argparse.ArgumentParser = action.choices[SERVE]
                return found
            commands += action.choices
    misfit = SeamState(
        seam=PARSER_SEAM,
        status=SeamStatus.DOES_NOT_FIT,
        expected=f"a sub-command {SERVE}",
        found=f"the sub-commands {', '.join(commands)}" if commands else "no sub-commands",
    )
    raise HostMismatch(host_version(), [misfit])


def _offer_flag(find_parser: Callable[[], argparse.ArgumentParser], *, serves: bool) -> None:
    """Add the flag to the parser found; ``serves`` tells whether this command line is for that parser."""
    try:
        parser = find_parser()
    except HostMismatch as mismatch:
        _stop_if_asked_for(mismatch)
        return
    _option_group(parser).add_argument(
        FLAG,
        dest=FLAG_DEST,
        action="store_true",
        help="Serve /v1/responses with vllm-mlx-responses: tools of every kind, images in tool results, the full event "
        "stream, stored responses",
    )
    _offer_options(parser, serves=serves)


def _offer_options(parser: argparse.ArgumentParser, *, serves: bool) -> None:
    """Add the options of all plugins when this command line is about them.

    Loading the plugins imports third-party code: a command line that neither mentions us nor asks for help with
    serving is spared that, and one that only asks for help gets it even when a plugin is broken.
    """
    arguments = sys.argv[1:]
    is_about_us = any(argument.startswith(OUR_OPTIONS) for argument in arguments)
    is_help = serves and ("-h" in arguments or "--help" in arguments)
    if not is_about_us and not is_help:
        return
    from responses_plugin import runtime
    from responses_plugin.plugins import PluginError

    try:
        runtime.installed_plugins().add_options(parser)
    except Exception as error:
        if FLAG not in arguments:
            sys.stderr.write(f"The options of the responses plugin are missing here: {error}\n")
        elif isinstance(error, (PluginError, argparse.ArgumentError)):
            _stop(error)
        else:
            raise


def _obey_flag(args: argparse.Namespace) -> None:
    """Enable the plugin when the flag is there; end the process when that cannot be done."""
    if not getattr(args, FLAG_DEST, False):
        if orphans := [argument for argument in sys.argv[1:] if argument.startswith(OUR_OPTIONS)]:
            _stop(f"{', '.join(orphans)} needs {FLAG}")
        return
    from responses_plugin import runtime
    from responses_plugin.plugins import PluginError

    try:
        runtime.enable(args)
    except (HostMismatch, PluginError) as error:
        _stop(error)


def _option_group(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Our section of the help text, one for the flag and the options alike."""
    for group in parser._action_groups:  # noqa: SLF001 - a group cannot be found again in a public way
        if group.title == GROUP_TITLE:
            return group
    return parser.add_argument_group(
        GROUP_TITLE, f"A complete /v1/responses in place of the host's own. The other options need {FLAG}."
    )


def _stop_if_asked_for(mismatch: HostMismatch) -> None:
    if FLAG in sys.argv:
        _stop(mismatch)
    logger.debug("no %s on this host: %s", FLAG, mismatch)


def _stop(reason: object) -> NoReturn:
    sys.exit(f"Error: {reason}")
