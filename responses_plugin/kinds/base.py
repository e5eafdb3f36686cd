"""What a tool kind is: a tool ``type`` as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from responses_plugin.generation.items import OutputItemKind
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.tools import Tool

#: Wire models, named here because a kind has a field called ``type``.
ToolModel = type[Tool]
CallModel = type[ToolCall]
OutputModel = type[ToolOutput]


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function as the model is to see it. ``name`` is the client's; the host's naming rule is met elsewhere."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolKind:
    """One tool ``type``, with everything the server needs to know of it.

    The call and the output of a kind are item types of their own: ``call_type`` and ``output_type`` name them.
    """

    type: str
    tool: ToolModel
    call: CallModel
    output: OutputModel
    #: A declared tool → the functions it puts before the model.
    functions: Callable[[Any], Iterable[Function]]
    #: A call in the history → name, and the JSON arguments the model would have written.
    history_call: Callable[[Any], tuple[str, str]]
    #: How a generated call of this kind looks on the wire.
    output_item: OutputItemKind

    @property
    def call_type(self) -> str:
        return self.output_item.type

    @property
    def output_type(self) -> str:
        return item_type(self.output)


def item_type(model: OutputModel) -> str:
    """The one ``type`` an item model admits: its ``type`` field is a ``Literal`` of one value."""
    annotation = model.model_fields["type"].annotation
    assert getattr(annotation, "__origin__", None) is Literal, f"{model.__name__}.type must be a Literal"
    (value,) = annotation.__args__  # type: ignore[union-attr]  # a Literal always has arguments
    return str(value)
