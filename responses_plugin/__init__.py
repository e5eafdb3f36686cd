"""A complete OpenAI ``/v1/responses`` for the vllm-mlx server.

``vllm-mlx serve MODEL --responses-plugin`` uses it; a program that embeds the host's ``app`` calls :func:`enable`.

==============  ============================================================================================
``bootstrap``   arms the flag at interpreter start, in vllm-mlx processes only
``__main__``    ``python -m responses_plugin serve MODEL`` and ``doctor``
``runtime``     what :func:`enable` and :func:`disable` do
``diagnosis``   whether serving would work here, and why not; ``doctor`` words it
``settings``    the values of our command-line options
``patching``    host patches: checked together, applied all or none, reverted exactly
``hookspecs``   every hook that a plugin can implement; ``plugins`` finds and calls the implementations
``protocol``    the wire as pydantic models: items, parts, tools, request, response, events, errors
``parsing``     a request's bytes to those models; ``images`` checks what they carry
``kinds``       tool kinds, one module each
``lowering``    items to chat messages
``generation``  generation events to output items and stream events
``store``       stored responses and conversations
``context``     what one request's hooks are told
``engine``      what we need of the host to have a request answered
``service``     one request's way through all of this
``routes``      the endpoints; ``responses`` has the HTTP answers they give
``hooks``       the default hook implementations, and the only code that imports the host
==============  ============================================================================================

Importing this package costs next to nothing, since from Python 3.15 on a start-up file does it in every process of
the environment: everything is imported where it is used, and annotations are quoted to do without ``__future__``.
"""

TYPE_CHECKING = False  # typing's own costs more to import than all of this module
if TYPE_CHECKING:
    from argparse import Namespace

    from responses_plugin.settings import Settings

__all__ = ["__version__", "disable", "enable"]

__version__ = "0.1.0"


def enable(options: "Settings | Namespace | None" = None) -> None:
    """Patch the host in this process, so that its ``app`` serves our ``/v1/responses``.

    The app may exist already; a second call changes nothing. ``options`` are the settings, or a command line parsed
    with them, and default to ``Settings()``.

    Raises :class:`responses_plugin.patching.HostMismatch` when the installed host does not fit, and
    :class:`responses_plugin.plugins.PluginError` when an installed plugin does not; the host is then as it was.
    """
    from responses_plugin import runtime

    runtime.enable(options)


def disable() -> None:
    """Restore the host exactly as :func:`enable` found it; does nothing when it is not enabled."""
    from responses_plugin import runtime

    runtime.disable()
