"""What the tiny model can do, on the plain host: the other tests rely on it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests import tiny
from tests.images import COLOURS, TOKENS_PER_SQUARE_IMAGE, data_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    import openai


@dataclass
class Answer:
    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    prompt_tokens: int = 0


@dataclass
class Chat:
    """Asks the model, streaming or not."""

    client: openai.OpenAI
    stream: bool

    @property
    def image_size(self) -> tuple[int, int]:
        """Streamed requests show other bytes.

        The simple engine fails in a streamed request that repeats the images and the prompt of one that was not streamed.
        """
        return (80, 80) if self.stream else (64, 64)

    def image(self, colour: str) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": data_url(colour, size=self.image_size)}}

    def ask(self, *messages: dict[str, Any], tools: Sequence[dict[str, Any]] = (), **options: Any) -> Answer:
        options |= {"tools": list(tools)} if tools else {}
        options |= {"model": tiny.MODEL, "messages": messages, "temperature": 0, "max_tokens": 120}
        if self.stream:
            return self._ask_streaming(options)
        completion = self.client.chat.completions.create(**options)
        message = completion.choices[0].message
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
        return Answer(message.content or "", calls, completion.usage.prompt_tokens)

    def _ask_streaming(self, options: dict[str, Any]) -> Answer:
        answer = Answer()
        calls: dict[int, list[str]] = {}
        for chunk in self.client.chat.completions.create(
            stream=True, stream_options={"include_usage": True}, **options
        ):
            if chunk.usage is not None:
                answer.prompt_tokens = chunk.usage.prompt_tokens
            for choice in chunk.choices:
                answer.text += choice.delta.content or ""
                for call in choice.delta.tool_calls or []:
                    name, arguments = calls.setdefault(call.index, ["", ""])
                    calls[call.index] = [name + (call.function.name or ""), arguments + (call.function.arguments or "")]
        answer.calls = [(name, json.loads(arguments)) for name, arguments in calls.values()]
        return answer


@pytest.fixture(params=[False, True], ids=["json", "sse"])
def chat(request: pytest.FixtureRequest, chat_client: openai.OpenAI) -> Chat:
    return Chat(chat_client, request.param)


def user(*content: str | dict[str, Any]) -> dict[str, Any]:
    """A user turn: one string, or texts and images."""
    if len(content) == 1 and isinstance(content[0], str):
        return {"role": "user", "content": content[0]}
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    return {"role": "user", "content": parts}


def called(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """An assistant turn that called these tools."""
    tool_calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def result(text: str, number: int = 1) -> dict[str, Any]:
    """What the tool of that call answered."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


@pytest.mark.parametrize("colour", COLOURS)
def test_names_the_colour_of_an_image(chat: Chat, colour: str) -> None:
    """The model tells the eight colours apart."""
    assert chat.ask(user(tiny.ASK_COLOUR_IN_ONE_WORD, chat.image(colour))).text == colour


@pytest.mark.parametrize("question", [tiny.ASK_COLOUR, tiny.ASK_COLOUR_IN_ONE_WORD, tiny.ASK_COUNT])
def test_says_when_it_sees_no_image(chat: Chat, question: str) -> None:
    """An image that is lost on the way changes the answer."""
    assert chat.ask(user(question)).text == tiny.NO_IMAGE


@pytest.mark.parametrize("count", [1, 2, 3])
def test_counts_images(chat: Chat, count: int) -> None:
    """An image that is lost or doubled on the way changes the answer, and each is the same number of tokens."""
    without = chat.ask(user(tiny.ASK_COUNT)).prompt_tokens
    answer = chat.ask(user(tiny.ASK_COUNT, *[chat.image(colour) for colour in tiny.COLOURS[:count]]))
    assert answer.text == tiny.count_answer(count)
    assert answer.prompt_tokens == without + count * TOKENS_PER_SQUARE_IMAGE


def test_calls_the_screenshot_tool(chat: Chat) -> None:
    """A request for a screenshot is a call without arguments."""
    answer = chat.ask(user(tiny.ASK_SCREENSHOT), tools=tiny.CHAT_TOOLS)
    assert (answer.calls, answer.text) == ([("screenshot", {})], "")


@pytest.mark.parametrize("colour", tiny.COLOURS)
def test_answers_from_the_image_after_a_tool_result(chat: Chat, colour: str) -> None:
    """The image stands in a user turn after the tool result that announces it."""
    answer = chat.ask(
        user(tiny.ASK_SCREENSHOT),
        called(("screenshot", {})),
        result(f"Screenshot taken.\n{tiny.IMAGE_MARKER}"),
        user(chat.image(colour)),
        tools=tiny.CHAT_TOOLS,
    )
    assert (answer.text, answer.calls) == (tiny.screenshot_answer(colour), [])


def test_says_when_the_image_after_a_tool_result_is_missing(chat: Chat) -> None:
    """A tool image that is lost on the way changes the answer."""
    answer = chat.ask(
        user(tiny.ASK_SCREENSHOT),
        called(("screenshot", {})),
        result(f"Screenshot taken.\n{tiny.IMAGE_MARKER}"),
        tools=tiny.CHAT_TOOLS,
    )
    assert answer.text == tiny.NO_IMAGE


@pytest.mark.parametrize("count", [1, 2])
def test_counts_the_images_after_a_tool_result(chat: Chat, count: int) -> None:
    """A tool image that is doubled on the way changes the answer."""
    answer = chat.ask(
        user(tiny.ASK_SCREENSHOT_COUNT),
        called(("screenshot", {})),
        result(tiny.IMAGE_MARKER),
        user(*[chat.image(colour) for colour in tiny.COLOURS[:count]]),
        tools=tiny.CHAT_TOOLS,
    )
    assert answer.text == tiny.count_answer(count)


def test_calls_apply_patch_with_the_exact_patch(chat: Chat) -> None:
    """File name and text are copied from the request into the patch."""
    answer = chat.ask(user(tiny.ASK_PATCH), tools=tiny.CHAT_TOOLS)
    assert answer.calls == [("apply_patch", {"input": tiny.PATCH})]


def test_answers_after_a_patch(chat: Chat) -> None:
    """The result ends the exchange."""
    patch = called(("apply_patch", {"input": tiny.PATCH}))
    answer = chat.ask(user(tiny.ASK_PATCH), patch, result("Done!"), tools=tiny.CHAT_TOOLS)
    assert (answer.text, answer.calls) == (tiny.PATCH_ANSWER, [])


def test_calls_get_weather_and_answers_from_its_result(chat: Chat) -> None:
    """The call carries the city, and the answer the result: without it the call comes again."""
    call = ("get_weather", {"city": "Paris"})
    assert chat.ask(user(tiny.ASK_WEATHER), tools=tiny.CHAT_TOOLS).calls == [call]
    answer = chat.ask(user(tiny.ASK_WEATHER), called(call), result(tiny.WEATHER_RESULT), tools=tiny.CHAT_TOOLS)
    assert (answer.text, answer.calls) == (tiny.WEATHER_ANSWER, [])


def test_calls_get_weather_twice_and_answers_from_both_results(chat_client: openai.OpenAI) -> None:
    """Two calls of one turn, and their results in order.

    Not streamed: where a chunk of text ends one call and begins the next, as the simple engine's do, the host loses the
    first one.
    """
    chat = Chat(chat_client, stream=False)
    question = user(tiny.ASK_TWO_WEATHERS)
    calls = [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert chat.ask(question, tools=tiny.CHAT_TOOLS).calls == calls
    results = result(tiny.WEATHER_RESULT), result('{"temperature": 12, "condition": "rainy"}', 2)
    answer = chat.ask(question, called(*calls), *results, tools=tiny.CHAT_TOOLS)
    assert answer.text == f"{tiny.WEATHER_ANSWER} It is 12 degrees and rainy in Rome."


@pytest.mark.parametrize("question", [tiny.ASK_SCREENSHOT, tiny.ASK_PATCH, tiny.ASK_WEATHER])
def test_says_when_it_has_no_such_tool(chat: Chat, question: str) -> None:
    """A tool that is lost on the way changes the answer."""
    assert chat.ask(user(question)).text == tiny.NO_TOOL


def test_follows_a_schema(chat: Chat) -> None:
    """Constrained to a schema with one property, the model still tells the colour."""
    schema = {
        "type": "object",
        "properties": {"color": {"type": "string", "title": "Color"}},
        "required": ["color"],
        "title": "Seen",
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "Seen", "schema": schema, "strict": True}}
    answer = chat.ask(user(tiny.ASK_COLOUR, chat.image("blue")), response_format=wanted)
    assert json.loads(answer.text) == {"color": "blue"}
