"""The base of every wire model, and validation errors as OpenAI words them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from typing_extensions import Self

from responses_plugin.protocol.errors import RequestError


class WireModel(BaseModel):
    """One JSON object of the protocol.

    Unknown fields are kept, so that what a newer client sends survives storage and replay. An explicit null means
    the same as an absent field. Types are not coerced: a number sent as a string is a mistake worth naming.
    """

    model_config = ConfigDict(
        extra="allow", frozen=True, strict=True, hide_input_in_errors=True, protected_namespaces=()
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict) and None in data.values():
            return {key: value for key, value in data.items() if value is not None}
        return data

    def wire(self) -> dict[str, Any]:
        """The JSON object as it was sent, nulls left out."""
        return self.model_dump(exclude_unset=True, by_alias=True)

    @classmethod
    def parse(cls, data: Any, path: str) -> Self:
        """Validate ``data``; raises :class:`RequestError` whose ``param`` starts with ``path``."""
        return validated(cls, data, path)


_UNION_MEMBER = re.compile(r"(str|int|float|bool|(list|dict)\[.*\]|[A-Z]\w+)")

_Model = TypeVar("_Model", bound=BaseModel)


def validated(model: type[_Model], data: Any, path: str) -> _Model:
    """Validate ``data`` as ``model``, or raise the first complaint as a :class:`RequestError`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _as_request_error(error, path) from None


def _as_request_error(error: ValidationError, path: str) -> RequestError:
    """Word the first complaint; the input itself is never echoed, it may be megabytes of base64."""
    first = error.errors(include_url=False, include_input=False, include_context=True)[0]
    param = join_path(path, first["loc"])
    kind = first["type"]
    if kind == "missing":
        return RequestError(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    return RequestError(f"Invalid value for '{param}': {first['msg']}.", param=param, code=code)


def join_path(path: str, location: tuple[int | str, ...]) -> str:
    """``input[2]`` + ``("content", 0)`` → ``input[2].content[0]``; pydantic's names of union members are left out."""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not _UNION_MEMBER.fullmatch(step):
            path = f"{path}.{step}" if path else step
    return path


def require_object(data: Any, path: str) -> Mapping[str, Any]:
    """``data`` if it is a JSON object; raises :class:`RequestError` otherwise."""
    if not isinstance(data, dict):
        raise RequestError(
            f"Invalid type for '{path}': expected an object, but got {json_type(data)} instead.",
            param=path,
            code="invalid_type",
        )
    return data


def json_type(value: Any) -> str:
    """JSON's name for the type of a parsed value, with its article."""
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array"}
    return "null" if value is None else names.get(type(value), "an object")
