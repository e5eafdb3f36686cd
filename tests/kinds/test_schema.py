"""docs/items.md against the types of the ``openai`` package: each has a rule, and the rule is what happens."""

from __future__ import annotations

import re
import types
import typing
from typing import Any

import pytest
from openai.types import responses as schema
from openai.types.responses import Response
from pydantic import BaseModel

from responses_plugin.kinds.toolset import parse_tools
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.items import ItemReference
from tests.docs.events import sent_events
from tests.docs.pages import DOCS, Page
from tests.images import data_url
from tests.openai_oracle import KEEPALIVE
from tests.reading import BUILTIN, lower, lower_body, read, read_item, refusal, user

Models = dict[str, list[type[BaseModel]]]


def rules_of(heading: str) -> dict[str, str]:
    """The rule of each type, as the page has it; a row may be about several types."""
    section = Page(DOCS / "items.md").section(heading)
    rows = re.findall(r"^\| (`[\w.]+`(?:, `[\w.]+`)*) \| ([\w, ]+?) \|", section, re.MULTILINE)
    rules = [(listed, rule) for types, rule in rows for listed in re.findall(r"[\w.]+", types)]
    assert len(rules) == len(dict(rules)), "a type is listed twice"
    return dict(rules)


def models_of(*unions: Any) -> Models:
    """The models of some unions, by each ``type`` they admit."""
    found: Models = {}
    for union in unions:
        for model in _members(union):
            for item_type in _members(model.model_fields["type"].annotation):
                found.setdefault(item_type, []).append(model)
    return found


def _members(annotation: Any) -> list[Any]:
    """The members of a union, or the values of a literal; None is left out."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _members(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return [member for argument in arguments for member in _members(argument) if member is not type(None)]
    return list(arguments) if origin is typing.Literal else [annotation]


def sample(annotation: Any) -> Any:
    """The least JSON that a type admits."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return sample(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return None if type(None) in arguments else sample(arguments[0])
    if origin is typing.Literal:
        return arguments[0]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return {name: sample(field.annotation) for name, field in fields if field.is_required()}
    plain = {str: "x", int: 1, float: 1.0, bool: True}
    empty = {list: [], dict: {}, object: {}}
    kind = origin or annotation
    assert kind in plain or kind in empty, f"the schema has a kind of value that this test does not know: {annotation}"
    return plain[kind] if kind in plain else empty[kind]


ITEMS = models_of(schema.ResponseInputItem, schema.ResponseOutputItem, schema.ResponseItem)
TOOLS = models_of(schema.Tool)
ITEM_RULES = rules_of("Items")
TOOL_RULES = rules_of("Tools")
PART_RULES = rules_of("Content parts")
CHOICE_RULES = rules_of("Tool choice")
EVENT_RULES = rules_of("Stream events")


def part_places() -> list[tuple[str, str, type[BaseModel]]]:
    """Where content parts stand: the type of an item that is read part by part, the field of it, and the part."""
    return [
        (item_type, field, part)
        for item_type, models in ITEMS.items()
        if ITEM_RULES.get(item_type) in ("message", "reasoning", "output")
        for field in ("content", "summary", "output")
        for part in listed_models(models, field)
    ]


def listed_models(models: list[type[BaseModel]], field: str) -> list[type[BaseModel]]:
    """The models of the typed objects that a field lists."""
    annotations = [model.model_fields[field].annotation for model in models if field in model.model_fields]
    lists = [member for annotation in annotations for member in _members(annotation)]
    elements = [typing.get_args(member)[0] for member in lists if typing.get_origin(member) is list]
    found = dict.fromkeys(member for element in elements for member in _members(element))
    return [model for model in found if "type" in getattr(model, "model_fields", {})]


PART_PLACES = part_places()
#: Those of the request, and those of the events that announce one.
PARTS = models_of(
    *(part for _, _, part in PART_PLACES),
    *(
        event.model_fields["part"].annotation
        for event in (schema.ResponseContentPartAddedEvent, schema.ResponseReasoningSummaryPartAddedEvent)
    ),
)
CHOICES = _members(Response.model_fields["tool_choice"].annotation)
CHOICE_MODELS = models_of(*(choice for choice in CHOICES if not isinstance(choice, str)))
EVENTS = models_of(schema.ResponseStreamEvent)


def test_every_item_type_has_a_rule() -> None:
    """A new type of OpenAI's is noticed here, before a user meets it: its row in docs/items.md says what becomes of it."""
    assert sorted(set(ITEMS) - set(ITEM_RULES)) == []


def test_every_tool_type_has_a_rule() -> None:
    """The same for tools."""
    assert sorted(set(TOOLS) - set(TOOL_RULES)) == []


def test_every_part_type_has_a_rule() -> None:
    """The same for what messages, reasoning and results of tools consist of, in requests and in answers."""
    assert PARTS.keys() >= {"input_text", "input_image", "output_text", "reasoning_text", "summary_text"}
    assert sorted(set(PARTS) - set(PART_RULES)) == []


def test_every_tool_choice_has_a_rule() -> None:
    """The same for every form of ``tool_choice``."""
    modes = {choice for choice in CHOICES if isinstance(choice, str)}
    assert sorted((CHOICE_MODELS.keys() | modes) - set(CHOICE_RULES)) == []
    assert modes == {choice for choice, rule in CHOICE_RULES.items() if rule == "mode"}


def test_every_event_has_a_rule() -> None:
    """The same for events; those that are sent are those that the code has."""
    assert sorted(set(EVENTS) - set(EVENT_RULES)) == []
    assert {event for event, rule in EVENT_RULES.items() if rule == "sent"} == sent_events() - {KEEPALIVE}


def test_a_new_type_would_be_noticed() -> None:
    """The walk sees each member of a union, under each of its types."""

    class New(BaseModel):
        type: typing.Literal["new_1", "new_2"]

    class Short(BaseModel):
        type: typing.Literal["short"] | None = None

    nested = typing.Annotated[New | Short, "discriminator"]
    assert models_of(typing.Union[nested, schema.ResponseReasoningItem]) == {  # noqa: UP007 - as the package has it
        "new_1": [New],
        "new_2": [New],
        "short": [Short],
        "reasoning": [schema.ResponseReasoningItem],
    }


# --- Items -----------------------------------------------------------------------------------------------------------

IMAGE_URL = data_url("red")
#: What makes an item of a type say something, where the least that its schema admits does not.
TELLING: dict[str, dict[str, Any]] = {
    "reasoning": {"content": [{"type": "reasoning_text", "text": "x"}]},
    "additional_tools": {"role": "developer", "tools": [{"type": "function", "name": "brought"}]},
    "function_call_output": {"call_id": "x"},
    "computer_call_output": {"output": {"type": "computer_screenshot", "image_url": IMAGE_URL}},
    "image_generation_call": {"result": IMAGE_URL.partition(",")[2]},
    "agent_message": {"author": "a", "recipient": "b", "content": [{"type": "input_text", "text": "x"}]},
}


def samples(item_type: str) -> list[dict[str, Any]]:
    """An item of each model that has this type."""
    least = [sample(model) for model in ITEMS.get(item_type, [])] or [{}]
    return [{**item, "type": item_type, **TELLING.get(item_type, {})} for item in least]


@pytest.mark.parametrize("item_type", ITEM_RULES)
def test_an_item_is_treated_by_its_rule(item_type: str) -> None:
    """In each of the forms that the schema has for it, whole and with nothing but what is required."""
    for item in samples(item_type):
        check = CHECKS[ITEM_RULES[item_type]]
        check(item)


def _after_question(*items: dict[str, Any]) -> list[dict[str, Any]]:
    return lower([user("hi"), *items])[1:]


def _is_message(item: dict[str, Any]) -> None:
    for role in ("user", "assistant", "system", "developer"):
        (message,) = lower([{**item, "role": role, "content": "x"}])
        assert message["content"] == "x"
        assert message["role"] == {"developer": "system"}.get(role, role)


def _is_reasoning(item: dict[str, Any]) -> None:
    (message,) = _after_question(item)
    assert (message["role"], message["reasoning_content"]) == ("assistant", "x")


def _is_call(item: dict[str, Any]) -> None:
    turn, _ = _after_question(item)
    assert (turn["role"], len(turn["tool_calls"])) == ("assistant", 1)


def _is_output(item: dict[str, Any]) -> None:
    (told,) = _after_question(item)
    assert told["content"].startswith("[output of call ")
    # Behind its call it is what the model is told.
    for call in samples(item["type"].removesuffix("_output") + ("_call" if item["type"].startswith("tool") else "")):
        turn, result = _after_question(call, item)
        assert (result["role"], result["tool_call_id"]) == ("tool", turn["tool_calls"][0]["id"])


def _brings_tools(item: dict[str, Any]) -> None:
    chat, messages = lower_body({"model": "m", "input": [user("hi"), item]})
    assert len(messages) == 1
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["brought"]


def _is_reference(item: dict[str, Any]) -> None:
    assert isinstance(read_item(item), ItemReference)


def _is_note(item: dict[str, Any], images: int = 0) -> None:
    note, *rest = _after_question(item)
    label = "[message from a to b]\n" if item["type"] == "agent_message" else f"[item of type {item['type']}]\n"
    assert note["role"] == "user"
    assert note["content"].startswith(label)
    shown = [part["image_url"]["url"] for message in rest for part in message["content"]]
    assert shown == [IMAGE_URL] * images


CHECKS: dict[str, Any] = {
    "message": _is_message,
    "reasoning": _is_reasoning,
    "call": _is_call,
    "output": _is_output,
    "tools": _brings_tools,
    "reference": _is_reference,
    "note": _is_note,
    "note, image": lambda item: _is_note(item, images=1),
}


def test_any_other_item_is_a_note() -> None:
    """What the page says of types it does not list."""
    (note,) = _after_question({"type": "telepathy_call", "id": "x", "status": "completed", "to": "you"})
    assert note["content"] == '[item of type telepathy_call]\n{"type": "telepathy_call", "to": "you"}'


# --- Tools -----------------------------------------------------------------------------------------------------------

#: The client's own variants of tools that may also run at OpenAI.
LOCAL: dict[str, dict[str, Any]] = {
    "shell": {"environment": {"type": "local"}},
    "tool_search": {"execution": "client"},
}
ELSEWHERE: dict[str, dict[str, Any]] = {
    "shell": {"environment": {"type": "container_auto"}},
    "tool_search": {"execution": "server"},
}


def is_offered(tool: dict[str, Any]) -> bool:
    """Whether the model may call it."""
    toolset = parse_tools([tool], BUILTIN.tool_kinds)
    assert bool(toolset.functions) is not bool(toolset.unavailable)
    return bool(toolset.functions)


@pytest.mark.parametrize("tool_type", TOOL_RULES)
def test_a_tool_is_treated_by_its_rule(tool_type: str) -> None:
    """Offered or not; a request that declares it works either way, and forcing what is not offered is a 400."""
    rule = TOOL_RULES[tool_type]
    for model in TOOLS.get(tool_type, []):
        tool = {**sample(model), "type": tool_type}
        if tool_type == "namespace":
            tool["tools"] = [{"type": "function", "name": "x"}]
        if rule == "offered if local":
            assert is_offered({**tool, **LOCAL[tool_type]})
            assert not is_offered({**tool, **ELSEWHERE[tool_type]})
            continue
        assert is_offered(tool) is (rule == "offered")
        if rule == "not offered":
            context, _ = read({"model": "m", "input": "hi", "tools": [tool, {"type": "function", "name": "f"}]})
            with pytest.raises(RequestError) as caught:
                context.toolset.choose({"type": tool_type})
            assert (caught.value.status, caught.value.param) == (400, "tool_choice")


def test_any_other_tool_is_not_offered() -> None:
    """What the page says of types it does not list."""
    assert not is_offered({"type": "telepathy"})


# --- Content parts ---------------------------------------------------------------------------------------------------


def sample_part(part: type[BaseModel]) -> dict[str, Any]:
    """A part that says something."""
    least: dict[str, Any] = sample(part)
    return {**least, **({"image_url": IMAGE_URL} if least["type"] == "input_image" else {})}


def holding(item_type: str, field: str, part: dict[str, Any]) -> list[dict[str, Any]]:
    """Items that make a conversation in which a part stands in its place."""
    if ITEM_RULES[item_type] != "output":
        return [user("hi"), {**samples(item_type)[0], "role": "user", "content": [], field: [part]}]
    call = samples(item_type.removesuffix("_output"))[0]
    return [user("hi"), call, {**samples(item_type)[0], field: [part]}]


@pytest.mark.parametrize(
    ("item_type", "field", "part"),
    [pytest.param(*place, id=f"{place[0]}.{place[1]}-{place[2].__name__}") for place in PART_PLACES],
)
def test_a_part_is_treated_by_its_rule(item_type: str, field: str, part: type[BaseModel]) -> None:
    """In each place that the schema has for it."""
    raw = sample_part(part)
    items = holding(item_type, field, raw)
    rule = PART_RULES[raw["type"]]
    if rule == "refused":
        error = refusal({"model": "m", "input": items})
        assert (error.status, error.param) == (400, f"input[{len(items) - 1}].{field}[0]")
        return
    *_, message = lower(items)
    if rule == "image":
        assert [shown["image_url"]["url"] for shown in message["content"]] == [IMAGE_URL]
    else:
        told = "reasoning_content" if item_type == "reasoning" else "content"
        assert message[told] == "x"


# --- Tool choice -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICE_RULES)
def test_a_tool_choice_is_treated_by_its_rule(choice: str) -> None:
    """With two tools to choose from, each named f; a tool that would run elsewhere is declared beside them."""
    rule = CHOICE_RULES[choice]
    f = {"type": "function", "name": "f"}
    if rule == "mode":
        assert chosen(choice, f, {**f, "name": "g"}) == (choice, ["f", "g"])
        return
    for model in CHOICE_MODELS.get(choice, []):
        form = {**sample(model), "type": choice}
        if rule == "list":
            form |= {"mode": "required", "tools": [f]}
            assert chosen(form, f, {**f, "name": "g"}) == ("auto", ["f", "g"])
            [message] = lower([user("hi")], tools=[f, {**f, "name": "g"}], tool_choice=form)
            assert "call only these now: f." in message["content"]
        elif rule == "tool":
            tool = {**sample(TOOLS[choice][0]), "type": choice, **LOCAL.get(choice, {})}
            name = tool.get("name", choice)
            assert chosen(form, {**f, "name": "g"}, tool) == (
                {"type": "function", "function": {"name": name}},
                ["g", name],
            )
        else:
            assert rule == "refused"
            context, _ = read({"model": "m", "input": "hi", "tools": [f, {**form, "server_label": "x"}]})
            with pytest.raises(RequestError) as caught:
                context.toolset.choose(form)
            assert (caught.value.status, caught.value.param) == (400, "tool_choice")


def chosen(choice: Any, *tools: dict[str, Any]) -> tuple[Any, list[str]]:
    """What the host is told, and which tools are left on offer."""
    chat, _ = lower_body({"model": "m", "input": "hi", "tools": tools, "tool_choice": choice})
    return chat["tool_choice"], [tool["function"]["name"] for tool in chat["tools"]]
