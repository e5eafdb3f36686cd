"""Where the running host is, on every release and however it was started."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from responses_plugin.bootstrap import CLI_MODULE, SERVER_MODULE
from responses_plugin.settings import Settings

if TYPE_CHECKING:
    from types import ModuleType

    from fastapi import FastAPI

    from responses_plugin.plugins import Plugins

DISTRIBUTION = "vllm-mlx"


def host_version() -> str:
    """The installed release: its metadata, or what the package says of itself where that is missing.

    Not ``app.version``, which stood still for several releases.
    """
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return str(importlib.import_module("vllm_mlx").__version__)


class Host:
    """The one place that knows how to reach the host.

    Modules are imported when they are first asked for: the server module takes seconds. Where the operator started
    ``python -m vllm_mlx.server``, the server is the module ``__main__``, and importing it by its own name would make
    a second app with a second engine that nobody serves.
    """

    def __init__(self, *, settings: Settings | None = None, plugins: Plugins | None = None) -> None:
        #: The options that the operator chose.
        self.settings = settings or Settings()
        self._plugins = plugins

    @property
    def plugins(self) -> Plugins:
        """The plugins that this server runs with. Raises ``RuntimeError`` where there are none, as for the flag."""
        if self._plugins is None:
            raise RuntimeError("this Host was made without plugins")
        return self._plugins

    @cached_property
    def server(self) -> ModuleType:
        """``vllm_mlx.server``: the app, its handlers and its engine, all globals of this module."""
        return _running_module(SERVER_MODULE)

    @cached_property
    def cli(self) -> ModuleType:
        """``vllm_mlx.cli``: the parser and commands behind ``vllm-mlx``."""
        return _running_module(CLI_MODULE)

    @property
    def app(self) -> FastAPI:
        """The FastAPI app that uvicorn serves."""
        app: FastAPI = self.server.app
        return app

    @cached_property
    def version(self) -> str:
        """Such as ``"0.6.0"``."""
        return host_version()


def _running_module(name: str) -> ModuleType:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name == name:
        return main
    return importlib.import_module(name)
