"""``text.format`` as the host enforces it: whether it can take a schema, and what JSON it makes of an answer."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any

from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.host_errors import unfit_answer


def check_schema(response_format: Any) -> None:
    """Refuse a schema that the host's grammar compiler does not take.

    The host would notice at the first token only, after the whole prompt was read, and some engines would not say why.
    """
    wanted: Any = getattr(response_format, "json_schema", None)
    if wanted is None or not wanted.schema_:
        return
    try:
        matcher = importlib.import_module("llguidance").LLMatcher
    except ImportError:
        return  # Before release 0.5.0 the host used another compiler.
    try:
        problem = matcher.validate_grammar(matcher.grammar_from_json_schema(wanted.schema_))
    except Exception as error:  # noqa: BLE001 - whatever it fails on, it is the schema
        problem = str(error)
    if problem:
        raise _invalid_schema(wanted.name, problem)


def check_final_schema(response_format: Mapping[str, Any]) -> None:
    """Refuse what is no JSON schema at all, where the model is only asked for it in words: no answer would fit it.

    What the grammar compiler does not take is fine here, since nothing is compiled.
    """
    wanted = response_format.get("json_schema")
    if not wanted:
        return
    validators = importlib.import_module("jsonschema.validators")  # the host's own, untyped
    try:
        validators.validator_for(wanted["schema"]).check_schema(wanted["schema"])
    except Exception as error:
        raise _invalid_schema(wanted["name"], getattr(error, "message", str(error))) from error


def _invalid_schema(name: str, problem: str) -> RequestError:
    return RequestError(
        f"Invalid schema for text.format '{name}': {problem}",
        param="text.format.schema",
        code="invalid_json_schema",
    )


def _type_of(response_format: Any) -> Any:
    """Of the host's model, or of its JSON."""
    return response_format["type"] if isinstance(response_format, Mapping) else response_format.type


def checked_json(text: str, response_format: Any) -> str:
    """The JSON that the host finds in an answer; raises :class:`RequestError` if there is none that fits.

    Whole answers of the host have been through it already. Its streams have not: they show whatever stands around the
    JSON, and what was broken in it.
    """
    from vllm_mlx.api.tool_calling import parse_json_output

    _, found, fits, problem = parse_json_output(text, response_format)
    if not fits:
        raise unfit_answer(problem or "it is not JSON")
    if _type_of(response_format) == "json_object" and not isinstance(found, dict):
        # Older releases take any JSON for an object.
        raise unfit_answer("it is not a JSON object")
    return text if found is None else json.dumps(found, ensure_ascii=False)
