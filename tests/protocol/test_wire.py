"""Wire models: what is sent is kept, nulls are absent, and what does not fit is worded for the client."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError

from responses_plugin.protocol.wire import WireModel, join_path, json_type, require_object, wrong_type
from tests.reading import error_of


class Leg(WireModel):
    length: int = Field(gt=0)
    material: Literal["oak", "steel"] = "oak"


class Table(WireModel):
    legs: list[Leg] = Field(default_factory=list)
    top: str | Leg | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


def complaint(data: Any, path: str = "tables[1]") -> tuple[str | None, str | None, str] | None:
    """Where, what kind, and in what words."""
    error = error_of(Table.parse, data, path)
    return (error.param, error.code, error.message) if error else None


def test_what_was_sent_is_kept() -> None:
    """Fields that no model names, names that ours give away, nulls inside plain JSON; not the nulls of models."""
    sent = {"legs": [{"length": 1, "x": {"y": None}}], "wire": 1, "schema": {"a": None}, "top": "oak"}
    table = Table.parse({**sent, "gone": None}, "")
    assert table.wire() == sent
    assert Table.parse(table.wire(), "") == table


def test_a_model_is_a_value() -> None:
    """It can be shared between threads and kept in a store."""
    with pytest.raises(ValidationError):
        Leg.parse({"length": 1}, "").length = 2


@pytest.mark.parametrize("data", [{}, {"legs": None}, {"top": None, "schema": None, "more": None}])
def test_null_is_absent(data: Any) -> None:
    """A field that is null has its default, and is not sent back."""
    assert Table.parse(data, "").wire() == {}
    assert Table.parse(data, "") == Table()


@pytest.mark.parametrize("data", [{"length": "1"}, {"length": 1.0}, {"length": True}])
def test_types_are_not_guessed(data: Any) -> None:
    """A number that was sent as a string is a mistake worth naming."""
    assert complaint({"legs": [data]})[:2] == ("tables[1].legs[0].length", "invalid_type")  # type: ignore[index]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"legs": [{}]},
            ("legs[0].length", "missing_required_parameter", "Missing required parameter: 'legs[0].length'."),
        ),
        (
            {"legs": [{"length": 0}]},
            ("legs[0].length", "invalid_value", "Invalid value for 'legs[0].length': Input should be greater than 0."),
        ),
        (
            {"legs": {}},
            ("legs", "invalid_type", "Invalid type for 'legs': expected an array, but got an object instead."),
        ),
        (
            {"legs": [None]},
            ("legs[0]", "invalid_type", "Invalid type for 'legs[0]': expected an object, but got null instead."),
        ),
        (
            {"legs": [{"length": 1, "material": "glass"}]},
            (
                "legs[0].material",
                "invalid_value",
                "Invalid value for 'legs[0].material': Input should be 'oak' or 'steel'.",
            ),
        ),
        (
            {"legs": [{"length": 1, "material": []}]},
            (
                "legs[0].material",
                "invalid_type",
                "Invalid type for 'legs[0].material': expected a string, but got an array instead.",
            ),
        ),
    ],
)
def test_the_first_complaint_is_worded(data: Any, expected: tuple[str, str, str]) -> None:
    """In JSON's words, with the place and a code that a program can act on."""
    assert complaint(data, "") == expected


@pytest.mark.parametrize(
    ("top", "param", "told"),
    [
        (5, "tables[1].top", "expected a string or an object, but got an integer"),
        ({}, "tables[1].top.length", "Missing"),
        ({"length": "x"}, "tables[1].top.length", "expected an integer, but got a string"),
        ({"length": -1}, "tables[1].top.length", "greater than 0"),
    ],
)
def test_of_a_union_the_member_that_was_meant_complains(top: Any, param: str, told: str) -> None:
    """The one that the value got furthest into; if it fits none at all, all that would have fitted are named."""
    found = complaint({"top": top})
    assert found is not None
    assert found[0] == param
    assert told in found[2]


def test_a_field_is_not_taken_for_one_with_a_longer_name() -> None:
    """Complaints about ``a`` and ``ab`` are about two fields."""

    class Both(WireModel):
        a: int
        ab: dict[str, int]

    error = error_of(Both.parse, {"a": "x", "ab": {"c": {}}}, "")
    assert error is not None
    assert error.param == "a"


def test_nothing_that_was_sent_is_echoed() -> None:
    """It may be megabytes, or a secret."""
    for data in (
        {"legs": "s3cret"},
        {"top": ["s3cret"]},
        {"legs": [{"length": "s3cret"}]},
        {"legs": [{"length": 1, "material": "s3cret"}]},
    ):
        found = complaint(data)
        assert found is not None
        assert "s3cret" not in found[2]


@pytest.mark.parametrize(
    ("path", "location", "joined"),
    [
        ("", ("model",), "model"),
        ("input[2]", ("content", 0, "text"), "input[2].content[0].text"),
        ("input[2]", ("content", "list[SerializeAsAny[Part]]", 0, "type"), "input[2].content[0].type"),
        ("", ("conversation", "ConversationReference", "id"), "conversation.id"),
        ("", ("conversation", "constrained-str"), "conversation"),
        ("", ("tool_choice", "dict[str,any]", "name"), "tool_choice.name"),
        ("", ("top", "function-before[_drop_nulls(), Leg]", "length"), "top.length"),
        ("tools[0]", (), "tools[0]"),
    ],
)
def test_places_are_paths_into_the_body(path: str, location: tuple[int | str, ...], joined: str) -> None:
    """Without the names that pydantic has for the members of a union."""
    assert join_path(path, location) == joined


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "an integer"),
        (1.5, "a number"),
        ("", "a string"),
        ([], "an array"),
        ({}, "an object"),
    ],
)
def test_values_are_called_what_json_calls_them(value: Any, name: str) -> None:
    """A client's author need not know Python."""
    assert json_type(value) == name
    assert wrong_type("a", "a duck", value).message == f"Invalid type for 'a': expected a duck, but got {name} instead."
    assert (error_of(require_object, value, "a") is None) == (value == {})
