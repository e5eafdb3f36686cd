"""What a tool kind is: a tool ``type`` as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from responses_plugin.generation.items import OutputItemKind
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.parts import Part
from responses_plugin.protocol.tools import Tool

#: Wire models, named here because a kind has a field called ``type``.
ToolModel = type[Tool]
CallModel = type[ToolCall]
OutputModel = type[ToolOutput]


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function as the model is to see it. ``name`` is the client's; the host's naming rule is met elsewhere.

    ``kind`` is given where a call of the function is not of the kind of the tool that brings it: a group of tools has
    no calls of its own. A ``deferred`` function is offered once the model has found it.
    """

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    namespace: str | None = None
    kind: ToolKind | None = None
    deferred: bool = False


def _plain_output(output: ToolOutput) -> str | list[Part]:
    return output.output


@dataclass(frozen=True, kw_only=True)
class ToolKind:
    """One tool ``type``, with everything the server needs to know of it.

    The call and the output of a kind are item types of their own: ``call_type`` and ``output_type`` name them. A kind
    that only groups tools of other kinds leaves out all that is about calls.
    """

    type: str
    tool: ToolModel
    #: A declared tool → the functions it puts before the model.
    functions: Callable[[Any], Iterable[Function]]
    call: CallModel | None = None
    output: OutputModel | None = None
    #: A call in the history → name, and the JSON arguments the model would have written.
    history_call: Callable[[Any], tuple[str, str]] | None = None
    #: An output in the history → its text, or its parts.
    history_output: Callable[[Any], str | list[Part]] = _plain_output
    #: How a generated call of this kind looks on the wire.
    output_item: OutputItemKind | None = None

    @property
    def call_type(self) -> str | None:
        return self.output_item.type if self.output_item else None

    @cached_property
    def output_type(self) -> str | None:
        return item_type(self.output) if self.output else None


def item_type(model: OutputModel) -> str:
    """The one ``type`` an item model admits: its ``type`` field is a ``Literal`` of one value."""
    annotation = model.model_fields["type"].annotation
    assert getattr(annotation, "__origin__", None) is Literal, f"{model.__name__}.type must be a Literal"
    (value,) = annotation.__args__  # type: ignore[union-attr]  # a Literal always has arguments
    return str(value)
