"""langchain-openai: ChatOpenAI over the Responses API, whole and streamed."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, custom_tool
from pydantic import BaseModel

from tests.clients.scripts import calls, says
from tests.host.scripted import SCRIPTED_MODEL, Script, ScriptedHost
from tests.images import data_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.runnables import Runnable

    from tests.host.scripted import EngineCall, ScriptedEngine

RED, BLUE = data_url("red"), data_url("blue")


@contextmanager
def connected(
    *scripts: Script, reasoning_parser: str | None = None, **options: Any
) -> Iterator[tuple[ChatOpenAI, ScriptedEngine]]:
    """The chat model, and the engine behind it."""
    with ScriptedHost(*scripts, reasoning_parser=reasoning_parser) as host, host.serving() as url:
        model = ChatOpenAI(
            model=SCRIPTED_MODEL,
            base_url=f"{url}/v1",
            api_key="unused",  # type: ignore[arg-type] # a plain string is taken too
            use_responses_api=True,
            max_retries=0,
            timeout=20,
            **options,
        )
        yield model, host.engine


def ask(model: Runnable[Any, Any], messages: Any, *, stream: bool) -> Any:
    """The answer, whole or put together from the chunks of a stream."""
    if not stream:
        return model.invoke(messages)
    answer = None
    for chunk in model.stream(messages):
        answer = chunk if answer is None else answer + chunk
    return answer


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["invoke", "stream"])


@tool
def look(place: str) -> str:
    """Looks somewhere."""
    return f"a tree in {place}"


@custom_tool
def run(source: str) -> str:
    """Runs code."""
    return f"<{source}>"


def images_of(call: EngineCall) -> list[str]:
    contents = [message["content"] for message in call.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


@BOTH
def test_an_answer(stream: bool) -> None:
    """System and human messages reach the model; text, usage and the end reach the client."""
    with connected(says("Ten past nine.", prompt_tokens=7)) as (model, engine):
        answer = ask(model, [SystemMessage("Be brief."), HumanMessage("What time is it?")], stream=stream)
    assert answer.text == "Ten past nine."
    assert answer.usage_metadata["input_tokens"] == 7
    assert answer.usage_metadata["total_tokens"] > 7
    assert answer.response_metadata["status"] == "completed"
    assert engine.calls[0].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What time is it?"},
    ]


def test_the_text_arrives_in_pieces() -> None:
    """A stream is one."""
    with connected(says("One, two, three.")) as (model, _):
        texts = [chunk.text for chunk in model.stream("Count.") if chunk.text]
    assert len(texts) > 1
    assert "".join(texts) == "One, two, three."


@BOTH
def test_tools(stream: bool) -> None:
    """Calls come as tool calls, two at once; they and the results go back."""
    script = calls(("look", {"place": "Łódź"}), ("look", {"place": "Rome"}), before="Now. ")
    with connected(script, says("Trees.")) as (model, engine):
        bound = model.bind_tools([look], strict=True)
        history: list[BaseMessage] = [HumanMessage("Look.")]
        first = ask(bound, history, stream=stream)
        history += [first, *(look.invoke(made) for made in first.tool_calls)]
        second = ask(bound, history, stream=stream)
    assert second.text == "Trees."
    assert [(made["name"], made["args"]) for made in first.tool_calls] == [
        ("look", {"place": "Łódź"}),
        ("look", {"place": "Rome"}),
    ]
    assert first.text.strip() == "Now."
    _, turn, *results = engine.calls[1].messages
    assert turn["content"].strip() == "Now."
    assert [made["function"]["arguments"] for made in turn["tool_calls"]] == [{"place": "Łódź"}, {"place": "Rome"}]
    assert [result["content"] for result in results] == ["a tree in Łódź", "a tree in Rome"]


@BOTH
def test_a_chosen_tool(stream: bool) -> None:
    """The host is told which one; the others stay on offer."""
    with connected(calls(("look", {"place": "Rome"}))) as (model, engine):
        answer = ask(model.bind_tools([look, run], tool_choice="look"), "Look.", stream=stream)
    assert answer.tool_calls[0]["name"] == "look"
    assert "look" in json.dumps(engine.calls[0].messages)


@BOTH
def test_custom_tools(stream: bool) -> None:
    """The input is free text, in and out."""
    with connected(calls(("run", {"input": 'print("é")\n'})), says("Ran.")) as (model, engine):
        bound = model.bind_tools([run])
        first = ask(bound, "Run.", stream=stream)
        (made,) = first.tool_calls
        result = run.invoke(made)
        second = ask(bound, [HumanMessage("Run."), first, result], stream=stream)
    assert (made["name"], made["args"]) == ("run", {"__arg1": 'print("é")\n'})
    assert second.text == "Ran."
    _, turn, told = engine.calls[1].messages
    assert turn["tool_calls"][0]["function"] == {"name": "run", "arguments": {"input": 'print("é")\n'}}
    assert told["content"] == '<print("é")\n>'


@BOTH
def test_images(stream: bool) -> None:
    """Those of the user and those of a tool reach the engine, in their order."""
    question = HumanMessage([{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": RED}}])
    call = AIMessage("", tool_calls=[{"name": "look", "args": {"place": "Rome"}, "id": "call_1"}])
    result = ToolMessage([{"type": "image_url", "image_url": {"url": BLUE}}], tool_call_id="call_1")
    with connected(says("Red and blue.")) as (model, engine):
        answer = ask(model.bind_tools([look]), [question, call, result], stream=stream)
    assert answer.text == "Red and blue."
    assert images_of(engine.calls[0]) == [RED, BLUE]


class City(BaseModel):
    """A city."""

    name: str
    people: int


CITY = '{"name": "Łódź", "people": 670000}'


@BOTH
@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output(method: Any, stream: bool) -> None:
    """Each of the ways that LangChain knows ends in the object; the engine is held to it where it can be."""
    script = calls(("City", json.loads(CITY))) if method == "function_calling" else says(CITY)
    with connected(script) as (model, engine):
        structured = model.with_structured_output(City, method=method)
        if stream:
            *_, city = structured.stream("A city as JSON.")
        else:
            city = structured.invoke("A city as JSON.")
    assert city == City(name="Łódź", people=670000)
    assert len(engine.calls) == 1


@BOTH
def test_structured_output_beside_tools(stream: bool) -> None:
    """The final answer has the form, and says so to the client, also where tools might have been called."""
    with connected(says(CITY)) as (model, _):
        bound = model.bind_tools([look], response_format=City, strict=True)
        answer = ask(bound, "A city.", stream=stream)
    assert json.loads(answer.text) == json.loads(CITY)
    assert answer.additional_kwargs["parsed"] == City(name="Łódź", people=670000)


@BOTH
def test_the_server_remembers(stream: bool) -> None:
    """With ``use_previous_response_id`` only what is new is sent, and the model still sees everything."""
    script = calls(("look", {"place": "Rome"}))
    with connected(script, says("A tree."), use_previous_response_id=True) as (model, engine):
        bound = model.bind_tools([look])
        history: list[BaseMessage] = [HumanMessage("Look.")]
        first = ask(bound, history, stream=stream)
        history += [first, look.invoke(first.tool_calls[0])]
        second = ask(bound, history, stream=stream)
        history += [second, HumanMessage("Sure?")]
        ask(bound, history, stream=stream)
    assert first.response_metadata["id"].startswith("resp_")
    assert [message["role"] for message in engine.calls[1].messages] == ["user", "assistant", "tool"]
    assert [message["content"] for message in engine.calls[2].messages] == [
        *("Look.", "", "a tree in Rome", "A tree.", "Sure?"),
    ]


@BOTH
@pytest.mark.parametrize("store", [True, False])
def test_a_thought_goes_with_its_call(store: bool, stream: bool) -> None:
    """LangChain replays the reasoning items that it received, and they stand in the turn of the call."""
    scripts = [calls(("look", {"place": "Rome"}), before="<think>I must look.</think>"), says("<think></think>A tree.")]
    options: dict[str, Any] = {"reasoning": {"summary": "auto"}, "store": store}
    if not store:
        options["include"] = ["reasoning.encrypted_content"]
    with connected(*scripts, reasoning_parser="qwen3", **options) as (model, engine):
        bound = model.bind_tools([look])
        history: list[BaseMessage] = [HumanMessage("Look.")]
        first = ask(bound, history, stream=stream)
        history += [first, look.invoke(first.tool_calls[0])]
        second = ask(bound, history, stream=stream)
    assert second.text.strip() == "A tree."
    thoughts = [block["reasoning"] for block in first.content_blocks if block["type"] == "reasoning"]
    assert "I must look." in "".join(thoughts)
    assert engine.calls[1].messages[1]["reasoning_content"] == "I must look."
    assert len(engine.calls[1].messages[1]["tool_calls"]) == 1


@BOTH
def test_a_refusal(stream: bool) -> None:
    """The exception of the OpenAI client that LangChain is built on."""
    with connected(says("Hello.")) as (model, engine), pytest.raises(openai.BadRequestError) as caught:
        ask(model.bind(temperature="warm"), "Hi.", stream=stream)
    assert caught.value.param == "temperature"
    assert not engine.calls


@BOTH
def test_a_failure(stream: bool) -> None:
    """A stream that broke off is an exception too, and no answer."""
    with (
        connected(says("Hello, you.", error=RuntimeError("boom"), error_after=1)) as (model, _),
        pytest.raises((openai.APIError, ValueError)),
    ):
        ask(model, "Hi.", stream=stream)
