"""The part of the build that pyproject.toml cannot express; it runs when a wheel is built, never afterwards.

A wheel ships two start-up files at the top of site-packages, where the interpreter looks for them. ``data_files``
would not do: installers put those below ``sys.prefix``, which no interpreter reads at start.
"""

from __future__ import annotations

from pathlib import Path

from setuptools.command.build_py import build_py

#: ``.pth`` arms the flag up to Python 3.14; from 3.15 on the ``.start`` file of the same name replaces it (PEP 829).
STARTUP_FILES = (
    "responses_plugin/startup/vllm_mlx_responses.pth",
    "responses_plugin/startup/vllm_mlx_responses.start",
)


class BuildWithStartupFiles(build_py):
    """Copy the start-up files beside the packages, so that they land in purelib and are uninstalled with them.

    An editable install goes without: its start-up file would outlive a moved checkout and then print an error in
    every Python process. ``python -m responses_plugin serve`` needs none.
    """

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source, target in self._startup_files():
                self.copy_file(source, target, preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:  # noqa: FBT001, FBT002 - setuptools' signature
        startup_files = [] if self.editable_mode else [target for _, target in self._startup_files()]
        return super().get_outputs(include_bytecode) + startup_files

    def get_source_files(self) -> list[str]:
        """Put the start-up files into the source distribution as well."""
        return [*super().get_source_files(), *STARTUP_FILES]  # type: ignore[no-untyped-call]  # no types upstream

    def _startup_files(self) -> list[tuple[str, str]]:
        return [(source, str(Path(self.build_lib, Path(source).name))) for source in STARTUP_FILES]
