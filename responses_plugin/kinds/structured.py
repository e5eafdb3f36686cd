"""What the kinds have in common whose calls hold an object rather than text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from responses_plugin.generation.items import OutputItemKind, VerbatimDecoder

_Model = TypeVar("_Model", bound=BaseModel)


def object_item(type: str, id_prefix: str, payload: str, build: Callable[[str], Any], **fields: Any) -> OutputItemKind:
    """The wire form of a call whose payload is an object: sent whole, and without the name of a tool."""
    return OutputItemKind(
        type=type,
        id_prefix=id_prefix,
        payload=payload,
        decoder=VerbatimDecoder,
        build=build,
        named=False,
        fields=fields,
    )


def read_arguments(model: type[_Model], arguments: str) -> _Model:
    """Generated arguments as ``model``; raises :class:`ValueError` for what the model got wrong."""
    try:
        return model.model_validate_json(arguments)
    except ValidationError as error:
        raise ValueError(str(error)) from error


def as_arguments(value: BaseModel | dict[str, Any]) -> str:
    """The JSON arguments that a model would have written."""
    data = value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
    return json.dumps(data, ensure_ascii=False)
