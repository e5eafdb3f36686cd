"""What the start-up files of the wheel run at interpreter start.

The host has no way to load a plugin, so its command line learns about us here. Almost every process of the
environment is something else. Up to Python 3.14 the ``.pth`` file only comes here when the word "vllm" is on the
command line; its successor from 3.15 on, the ``.start`` file, cannot make that choice, so this module is made to be
imported everywhere: :func:`arm` looks at the command line, finds no vllm-mlx in it and returns.

In a vllm-mlx process it arms one of two triggers, each of which goes off once and is then gone:

- ``vllm-mlx …`` imports ``vllm_mlx.cli`` and calls its ``main()``: a finder on ``sys.meta_path`` waits for the import;
- ``python -m vllm_mlx.cli`` and ``python -m vllm_mlx.server`` run the module as ``__main__``, which imports nothing
  by its name: a wrapped ``ArgumentParser.parse_args`` waits for the call that the module makes.

Both only add ``--responses-plugin`` to the host's options. What touches the host is in
:mod:`responses_plugin.hooks.server_flag`, imported when the trigger goes off.
"""

import sys

# Nothing is imported here that the interpreter has not loaded already; hence no typing, and quoted annotations.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

CLI_MODULE = "vllm_mlx.cli"
SERVER_MODULE = "vllm_mlx.server"
CONSOLE_SCRIPT = "vllm-mlx"

#: The interpreter's short options that take the next argument when nothing is attached to them.
_OPTIONS_WITH_VALUE = "WX"

_looked = False


def arm() -> None:
    """Arm the trigger that this process needs, if any. Never raises: this runs in programs that know nothing of us.

    Only the first call does anything, since ``site`` reads the start-up files of a virtual environment twice.
    """
    global _looked  # noqa: PLW0603 - one command line a process
    if _looked:
        return
    _looked = True
    try:
        target = host_entry_point(sys.orig_argv)
        if target == CONSOLE_SCRIPT:
            wait_for_cli_import()
        elif target is not None:
            wait_for_parse_args()
    except Exception as error:  # noqa: BLE001 - a defect of ours must not keep the host, let alone others, from starting
        _report(error)


def host_entry_point(argv: "Sequence[str]") -> "str | None":
    """Tell how ``argv``, an interpreter's whole command line, starts the host, if it does.

    Returns ``"vllm-mlx"`` for the console script, the module's name for ``-m``, or ``None``. Reads the options as the
    interpreter does: short ones may be joined (``-Im vllm_mlx.cli``) and ``-m`` may be joined to its value.
    """
    position = 1
    while position < len(argv):
        argument = argv[position]
        position += 1
        if argument.startswith("--"):
            if argument == "--check-hash-based-pycs":
                position += 1
            continue
        if not argument.startswith("-") or argument == "-":
            return CONSOLE_SCRIPT if _is_console_script(argument) else None
        for index, letter in enumerate(argument[1:], start=2):
            if letter == "c":
                return None
            if letter == "m":
                module = argument[index:] or (argv[position] if position < len(argv) else "")
                return module if module in (CLI_MODULE, SERVER_MODULE) else None
            if letter in _OPTIONS_WITH_VALUE:
                position += 0 if argument[index:] else 1
                break
    return None


def wait_for_cli_import() -> None:
    """Add the flag once ``vllm_mlx.cli`` has been imported."""
    sys.meta_path.insert(0, _CliFinder())


def wait_for_parse_args() -> None:
    """Add the flag once the host's module that runs as ``__main__`` parses its command line."""
    from argparse import ArgumentParser

    # Taken from the class's own dictionary, so that the very same object is put back.
    original = vars(ArgumentParser)["parse_args"]

    def parse_args(self: ArgumentParser, *args: "Any", **kwargs: "Any") -> "Any":
        main = sys.modules["__main__"]
        if not callable(getattr(main, "create_parser", None)):
            return original(self, *args, **kwargs)  # something that the host imports parses something else
        ArgumentParser.parse_args = original  # type: ignore[method-assign]
        try:
            from responses_plugin.hooks.server_flag import parse_args_of_main
        except Exception as error:  # noqa: BLE001 - see arm()
            _report(error)
            return original(self, *args, **kwargs)
        return parse_args_of_main(self, *args, **kwargs)

    ArgumentParser.parse_args = parse_args  # type: ignore[method-assign]


class _CliFinder:
    """Waits for the import of ``vllm_mlx.cli``, and leaves ``sys.meta_path`` when it comes."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        if fullname != CLI_MODULE:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _AttachingLoader(spec.loader)  # type: ignore[assignment]
        return spec


class _AttachingLoader:
    """Loads a module with its real loader, which it puts back in its place, then adds the flag."""

    def __init__(self, loader: "Loader") -> None:
        self._loader = loader

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        return self._loader.create_module(spec)

    def exec_module(self, module: "ModuleType") -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            from responses_plugin.hooks.server_flag import attach_to_cli

            attach_to_cli(module)
        except Exception as error:  # noqa: BLE001 - see arm()
            _report(error)


def _is_console_script(argument: str) -> bool:
    name = argument.replace("\\", "/").rpartition("/")[2]
    return name in (CONSOLE_SCRIPT, f"{CONSOLE_SCRIPT}.exe")


def _report(error: Exception) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"vllm-mlx-responses: --responses-plugin is not available: {type(error).__name__}: {error}\n")
