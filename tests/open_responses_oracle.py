"""The published schemas of Open Responses, as the compliance suite that we run (llm-comply) brings them along."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from responses_plugin.protocol.response import Wire


@functools.cache
def _specification() -> dict[str, Any]:
    specification: dict[str, Any] = json.loads(
        resources.files("llm_comply").joinpath("specs/openresponses.json").read_text(encoding="utf-8")
    )
    return specification


@functools.cache
def _schema_of_events() -> dict[str, str]:
    """The name of the schema of each type of event."""
    schemas = _specification()["components"]["schemas"]
    return {
        schema["properties"]["type"]["enum"][0]: name
        for name, schema in schemas.items()
        if name.endswith("StreamingEvent")
    }


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({**_specification(), "$ref": f"#/components/schemas/{name}"})


def complaints_of_response(response: Wire) -> list[str]:
    """What the schema of a response finds wrong."""
    return _complaints("ResponseResource", response)


def complaints_of_event(event: Wire) -> list[str]:
    """What the schema of this type of event finds wrong; a type that there is none for is wrong as well."""
    name = _schema_of_events().get(event["type"])
    return _complaints(name, event) if name else [f"no such event: {event['type']}"]


def complaints_of_request(body: Wire) -> list[str]:
    """What the schema of a request finds wrong."""
    return _complaints("CreateResponseBody", body)


def _complaints(name: str, data: Wire) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(data)]
