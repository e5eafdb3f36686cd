"""Input items, as pydantic models. Calls and outputs of tools belong to their tool kind; see ``kinds/``."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import SerializeAsAny

from responses_plugin.protocol.parts import Part
from responses_plugin.protocol.wire import WireModel


class Item(WireModel):
    """One item of a conversation; the base of every kind and the form of an unknown one."""

    type: str
    id: str | None = None

    def declared_tools(self) -> list[Any]:
        """Tools that the item brings along, as raw declarations."""
        return []


class Message(Item):
    """A message in any of its forms; ``content`` holds parsed parts (a plain string stays one)."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[SerializeAsAny[Part]] = ""
    status: str | None = None
    phase: str | None = None


class Reasoning(Item):
    """What the model thought. ``content`` is the raw text, ``summary`` a short form of it."""

    type: Literal["reasoning"]
    summary: list[SerializeAsAny[Part]] = []
    content: list[SerializeAsAny[Part]] = []
    encrypted_content: str | None = None


class ToolCall(Item):
    """The base of the call items of all tool kinds."""

    call_id: str
    status: str | None = None


class ToolOutput(Item):
    """The base of the call-output items of all tool kinds. A missing output means an empty one."""

    #: The fields that hold content parts.
    content_fields: ClassVar[tuple[str, ...]] = ("output",)

    call_id: str
    output: str | list[SerializeAsAny[Part]] = ""
    status: str | None = None


class ItemReference(Item):
    """Stands for an item this server produced and stored earlier."""

    type: Literal["item_reference"] = "item_reference"
    id: str


class AdditionalTools(Item):
    """Declares tools in the middle of a conversation, as ``tools`` does for all of it."""

    type: Literal["additional_tools"]
    tools: list[Any] = []

    def declared_tools(self) -> list[Any]:
        return self.tools


class Entry(NamedTuple):
    """An item and where it came from (``input[3]``, or the id of the stored response), for error messages."""

    item: Item
    path: str


def note_fields(item: Item) -> dict[str, Any]:
    """The fields of an item that is shown to the model as JSON: all but its identity."""
    return {key: value for key, value in item.wire().items() if key not in ("id", "status")}
