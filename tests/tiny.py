"""Prompts that the tiny model answers rightly, and the one right answer to each.

Its world is closed: words, cities and colours outside the lists in ``tests/checkpoints/training/vocabulary.py`` come out
wrong. What is here was checked on both engines.
"""

from __future__ import annotations

from typing import Any

MODEL = "tiny-vlm"

#: The four colours of the acceptance tests; the model knows eight.
COLOURS = ("red", "green", "blue", "yellow")

ASK_COLOUR = "What is the dominant color of this image?"
ASK_COLOUR_IN_ONE_WORD = f"{ASK_COLOUR} Answer with one word."
ASK_COUNT = "How many images do you see?"
ASK_SCREENSHOT = "Take a screenshot and tell me the dominant color"
ASK_SCREENSHOT_COUNT = "Take a screenshot and count the images."
ASK_PATCH = "Create the file hello.txt with the text: hello world"
ASK_WEATHER = "What is the weather in Paris?"
ASK_TWO_WEATHERS = "What is the weather in Paris and Rome?"

PATCH = "*** Begin Patch\n*** Add File: hello.txt\n+hello world\n*** End Patch"
PATCH_ANSWER = "The patch was applied."
WEATHER_RESULT = '{"temperature": 19, "condition": "sunny"}'
WEATHER_ANSWER = "It is 19 degrees and sunny in Paris."

#: What the model says of something that did not reach it.
NO_IMAGE = "I see no image."
NO_TOOL = "I have no such tool."

GREETING = "Hello! How can I help?"

#: The line that stands in the tool message when its images follow in the next one.
IMAGE_MARKER = "[Image output attached in the next message]"


def colour_answer(colour: str) -> str:
    return f"The dominant color is {colour}."


def screenshot_answer(colour: str) -> str:
    return f"The screenshot is mostly {colour}."


def count_answer(count: int) -> str:
    return NO_IMAGE if count == 0 else f"I see {count} image{'s' if count > 1 else ''}."


def _parameters(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": text} for name, text in properties.items()},
        "required": list(properties),
    }


_FUNCTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "screenshot": ("Take a screenshot", _parameters()),
    "get_weather": ("Get the current weather for a city", _parameters(city="City name")),
    "exec_command": ("Runs a command in a shell", _parameters(cmd="Shell command to execute")),
}
_PATCH_DESCRIPTION = "Use the apply_patch tool to edit files."

#: The functions as /v1/responses takes them.
RESPONSES_FUNCTIONS: list[dict[str, Any]] = [
    {"type": "function", "name": name, "description": description, "parameters": parameters}
    for name, (description, parameters) in _FUNCTIONS.items()
]
#: All four tools; apply_patch is a custom tool.
RESPONSES_TOOLS: list[dict[str, Any]] = [
    *RESPONSES_FUNCTIONS,
    {"type": "custom", "name": "apply_patch", "description": _PATCH_DESCRIPTION},
]


def _chat_tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


#: The functions as /v1/chat/completions takes them.
CHAT_FUNCTIONS: list[dict[str, Any]] = [_chat_tool(name, *function) for name, function in _FUNCTIONS.items()]
#: All four tools; there apply_patch is a function of one string.
CHAT_TOOLS: list[dict[str, Any]] = [
    *CHAT_FUNCTIONS,
    _chat_tool("apply_patch", _PATCH_DESCRIPTION, _parameters(input="The patch")),
]
