"""The base of every wire model, and validation errors as OpenAI words them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from typing_extensions import Self

from responses_plugin.protocol.errors import RequestError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


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


#: How pydantic names the members of a union in the place of an error.
_UNION_MEMBER = re.compile(r"(constrained-)?(str|int|float|bool)|[\w-]+\[.*\]|[A-Z]\w+")
#: What its complaints about a type ask for, in JSON's words.
_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "a boolean",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
}

_Model = TypeVar("_Model", bound=BaseModel)


def validated(model: type[_Model], data: Any, path: str) -> _Model:
    """Validate ``data`` as ``model``, or raise the first complaint as a :class:`RequestError`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _as_request_error(error, path) from None


def _as_request_error(error: ValidationError, path: str) -> RequestError:
    """Word the complaint about the first bad field; the input itself is never echoed, it may be megabytes of base64."""
    complaints = error.errors(include_url=False)
    field = join_path(path, complaints[0]["loc"])
    # Each member of a union complains for itself. The one that the value got furthest into is the one that was meant.
    complaints = [c for c in complaints if f"{join_path(path, c['loc'])}.".startswith((f"{field}.", f"{field}["))]
    meant = max(complaints, key=lambda c: (len(c["loc"]), _expected_type(c) is None))
    param = join_path(path, meant["loc"])
    if meant["type"] == "missing":
        return missing(param)
    if _expected_type(meant):
        expected = (_expected_type(c) for c in complaints if len(c["loc"]) == len(meant["loc"]))
        return wrong_type(param, " or ".join(dict.fromkeys(filter(None, expected))), meant["input"])
    return RequestError(f"Invalid value for '{param}': {meant['msg']}.", param=param, code="invalid_value")


def _expected_type(complaint: ErrorDetails) -> str | None:
    """The type that should have been there; None if the type is right and the value is not."""
    if complaint["type"] == "literal_error" and not isinstance(complaint["input"], str):
        return "a string"
    return _EXPECTED.get(complaint["type"])


def join_path(path: str, location: tuple[int | str, ...]) -> str:
    """``input[2]`` + ``("content", 0)`` → ``input[2].content[0]``; pydantic's names of union members are left out."""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not _UNION_MEMBER.fullmatch(step):
            path = f"{path}.{step}" if path else step
    return path


def missing(path: str) -> RequestError:
    """The error for a field that has to be there."""
    return RequestError(f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter")


def wrong_type(path: str, expected: str, value: Any) -> RequestError:
    """The error for a value of another JSON type than the protocol has there."""
    message = f"Invalid type for '{path}': expected {expected}, but got {json_type(value)} instead."
    return RequestError(message, param=path, code="invalid_type")


def require_object(data: Any, path: str) -> Mapping[str, Any]:
    """``data`` if it is a JSON object; raises :class:`RequestError` otherwise."""
    if not isinstance(data, dict):
        raise wrong_type(path, "an object", data)
    return data


def json_type(value: Any) -> str:
    """JSON's name for the type of a parsed value, with its article."""
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array"}
    return "null" if value is None else names.get(type(value), "an object")
