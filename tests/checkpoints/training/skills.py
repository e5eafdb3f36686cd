"""What the model is taught: random prompts, each with the one right answer.

A skill draws one `Example` from a random generator. The answers are picked so
that whatever a server loses on the way changes them: without the image the
answer is "I see no image.", without the tool "I have no such tool.", without
the tool result the call comes again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

from tests.checkpoints.training.vocabulary import (
    CITIES,
    COLOURS,
    CONDITIONS,
    FILE_EXTENSIONS,
    FILE_STEMS,
    PROSE,
    TEMPERATURES,
    WORDS,
)

Message = dict[str, Any]
Tool = dict[str, Any]
Choice = TypeVar("Choice")

IMAGE_MARKER = "[Image output attached in the next message]"
NO_IMAGE = "I see no image."
NO_TOOL = "I have no such tool."
GREETING = "Hello! How can I help?"
PATCH_APPLIED = "The patch was applied."


@dataclass(frozen=True)
class Example:
    """A prompt, its right answer, and the colours of its images in order."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    answer: str
    colours: tuple[str, ...] = ()
    needed_tool: str | None = None

    def without_needed_tool(self) -> "Example":
        """The same prompt with the tool it asks for taken away."""
        left = [tool for tool in self.tools if tool["function"]["name"] != self.needed_tool]
        return replace(self, tools=left, answer=NO_TOOL, needed_tool=None)


Skill = Callable[[Random], Example]


def chance(rng: Random, probability: float) -> bool:
    """True with this probability."""
    return rng.random() < probability


def prose(rng: Random, length: int) -> str:
    """Some meaningless words."""
    return " ".join(rng.choice(PROSE) for _ in range(length))


# Tools ------------------------------------------------------------------------------

GRAMMAR = """start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?
hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line
%import common.LF"""

TOOL_DESCRIPTIONS: Mapping[str, Sequence[str]] = {
    "screenshot": (
        "",
        "Take a screenshot",
        "Take a screenshot of the screen.",
        "Capture the screen and return an image",
    ),
    "get_weather": (
        "",
        "Get the weather",
        "Get the current weather for a city",
        "Returns the weather in a city.",
    ),
    "apply_patch": (
        "",
        "Apply a patch",
        "Use the apply_patch tool to edit files.",
        "The `apply_patch` tool can be used to edit files. This is a FREEFORM tool, so do not wrap the patch in JSON.",
    ),
}
TOOL_PARAMETERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "screenshot": {},
    "get_weather": {"city": ("City name", "The city")},
    "apply_patch": {"input": ("The patch", "The entire contents of the apply_patch command", "Raw tool input")},
}
OTHER_TOOLS: Sequence[tuple[str, str, Mapping[str, str]]] = (
    ("exec_command", "Runs a command in a shell", {"cmd": "string", "workdir": "string"}),
    ("read_file", "Read a file from disk", {"path": "string", "limit": "number"}),
    ("update_plan", "Updates the task plan", {"plan": "string"}),
    ("search", "Search the project", {"query": "string"}),
    ("write_stdin", "Writes characters to a running session", {"session_id": "number"}),
    ("list_dir", "List a directory", {"path": "string"}),
    ("view_image", "Look at an image file", {"path": "string"}),
)


def _function(rng: Random, name: str, description: str, properties: dict[str, Any]) -> Tool:
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if properties or chance(rng, 0.5):
        parameters["required"] = list(properties)[:1]
    if chance(rng, 0.4):
        parameters["additionalProperties"] = False
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def main_tool(rng: Random, name: str) -> Tool:
    """One of the three tools that the model can call."""
    description = rng.choice(TOOL_DESCRIPTIONS[name])
    if name == "apply_patch" and chance(rng, 0.15):
        lead = rng.choice(["Its input follows this grammar", "The input must match this grammar"])
        description = f"{description}\n\n{lead} (lark):\n{GRAMMAR}".lstrip()
    properties = {
        key: {"type": "string", "description": rng.choice(texts)} if chance(rng, 0.6) else {"type": "string"}
        for key, texts in TOOL_PARAMETERS[name].items()
    }
    return _function(rng, name, description, properties)


def other_tool(rng: Random) -> Tool:
    """A tool that no prompt asks for: a usual one, or one of random words."""
    if chance(rng, 0.7):
        name, description, types = rng.choice(OTHER_TOOLS)
    else:
        name = "_".join(rng.choice(PROSE) for _ in range(rng.randint(1, 2)))
        description = prose(rng, rng.randint(2, 8)).capitalize()
        types = {rng.choice(PROSE): "string" for _ in range(rng.randint(1, 2))}
    properties = {
        key: {"type": kind, "description": prose(rng, 3)} if chance(rng, 0.4) else {"type": kind}
        for key, kind in types.items()
    }
    return _function(rng, name, description, properties)


def sorted_keys(value: Any) -> Any:
    """The same value with the keys of every object sorted, as one of the engines does."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(item) for item in value] if isinstance(value, list) else value


def tool_list(rng: Random, *needed: str) -> list[Tool]:
    """The needed tools among others, in any order."""
    names = list(needed)
    tools: list[Tool] = []
    if not chance(rng, 0.2):
        names += [name for name in TOOL_PARAMETERS if name not in needed and chance(rng, 0.5)]
        tools = [other_tool(rng) for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))]
    tools += [main_tool(rng, name) for name in names]
    unique = list({tool["function"]["name"]: tool for tool in tools}.values())
    rng.shuffle(unique)
    return [sorted_keys(tool) for tool in unique] if chance(rng, 0.5) else unique


def maybe_tools(rng: Random, probability: float = 0.35) -> list[Tool]:
    """Tools beside a prompt that needs none."""
    return tool_list(rng) if chance(rng, probability) else []


# Messages ---------------------------------------------------------------------------

FIXED_INSTRUCTIONS = (
    "You are a helpful assistant.",
    "You are Codex, a coding agent.",
    "Answer briefly.",
    "You are a coding agent running in a terminal.",
)
#: What vllm-mlx itself adds for tool_choice "required", and below for a named tool.
MUST_CALL = (
    "[IMPORTANT INSTRUCTION] You MUST call at least one of the available tools. Do NOT respond with plain text only."
)
MUST_CALL_NAMED = (
    "[IMPORTANT INSTRUCTION] You MUST call the `{name}` function. Do NOT respond with "
    "plain text. Respond ONLY with a tool call to `{name}`. This is mandatory."
)


def instructions(rng: Random, extra: str | None = None) -> list[Message]:
    """No system message, a usual one or a meaningless one, with `extra` at its end."""
    text = ""
    if chance(rng, 0.3):
        text = rng.choice(FIXED_INSTRUCTIONS)
    elif chance(rng, 0.5):
        text = prose(rng, rng.choice([5, 10, 20, 30, 60])).capitalize() + "."
    if extra is not None:
        text = f"{text}\n\n{extra}" if text else extra
    return [{"role": "system", "content": text}] if text else []


def user(rng: Random, text: str) -> Message:
    """A user turn, sometimes after a note that means nothing."""
    if chance(rng, 0.12):
        text = f"{prose(rng, rng.choice([4, 10, 20])).capitalize()}.\n\n{text}"
    return {"role": "user", "content": text}


def user_with_images(rng: Random, text: str, count: int) -> Message:
    """A user turn whose images all stand before or all after its text."""
    images = [{"type": "image"}] * count
    words = [{"type": "text", "text": text}]
    return {"role": "user", "content": images + words if chance(rng, 0.5) else words + images}


def assistant(text: str) -> Message:
    """An answer in the history."""
    return {"role": "assistant", "content": text}


def assistant_calls(*calls: tuple[str, dict[str, Any]]) -> Message:
    """One assistant turn with these calls in the history."""
    tool_calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    return {"role": "assistant", "content": "", "tool_calls": tool_calls}


def tool_result(text: str, number: int = 1) -> Message:
    """What a tool answered."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


def calls_text(*calls: tuple[str, dict[str, Any]]) -> str:
    """What the model generates to make these calls: the same as the history shows."""
    return "\n".join(
        "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n</tool_call>"
        for name, arguments in calls
    )


def call_example(rng: Random, question: str, needed: str, *calls: dict[str, Any]) -> Example:
    """A question that must be answered by calls of one tool."""
    extra = None
    if chance(rng, 0.08):
        extra = rng.choice([MUST_CALL, MUST_CALL_NAMED.format(name=needed)])
    return Example(
        [*instructions(rng, extra), user(rng, question)],
        tool_list(rng, needed),
        calls_text(*((needed, arguments) for arguments in calls)),
        needed_tool=needed,
    )


# Colours ----------------------------------------------------------------------------

COLOUR_QUESTIONS = (
    "What is the dominant color of this image?",
    "What is the dominant colour of the image?",
    "Which color dominates this picture?",
    "What color is this square?",
    "What colour is this?",
    "Describe the dominant color in the image.",
    "What do you see in this image?",
    "What is in this image?",
    "Name the dominant color.",
)
ONE_WORD = (
    "Answer with one word.",
    "Reply with one word only.",
    "Answer with one word: red, green, blue or yellow.",
    "One word: red, green, blue, yellow, black, white, orange or purple.",
)
COUNT_QUESTIONS = (
    "How many images do you see?",
    "How many images are there?",
    "Count the images.",
)
#: Word for word what vllm-mlx adds to the system message for a JSON schema.
JSON_RULES = (
    "Output rules (STRICT):\n"
    "- Your first character MUST be `{` (or `[`).\n"
    "- Your last character MUST be `}` (or `]`).\n"
    "- Do NOT wrap the JSON in a markdown code block (no ``` fences).\n"
    '- Do NOT prepend any preamble such as "Here is the JSON" or "Let me format this".\n'
    "- Do NOT include comments, trailing explanations, or chain-of-thought.\n"
)


def draw_colours(rng: Random, count: int) -> tuple[str, ...]:
    """The colours of some images."""
    return tuple(rng.choice(list(COLOURS)) for _ in range(count))


def count_answer(count: int) -> str:
    """How many images the model says it sees."""
    if count == 0:
        return NO_IMAGE
    return f"I see {count} image{'s' if count > 1 else ''}."


def colour_question(rng: Random) -> tuple[str, bool]:
    """A question, and whether it asks for one word."""
    question = rng.choice(COLOUR_QUESTIONS)
    if chance(rng, 0.5):
        return f"{question} {rng.choice(ONE_WORD)}", True
    return question, False


def colour(rng: Random) -> Example:
    """Name the colour of the image in the question."""
    question, one_word = colour_question(rng)
    colours = draw_colours(rng, 1)
    answer = colours[0] if one_word else f"The dominant color is {colours[0]}."
    messages = [*instructions(rng), user_with_images(rng, question, 1)]
    return Example(messages, maybe_tools(rng), answer, colours)


def no_image(rng: Random) -> Example:
    """Say that there is no image."""
    question, _ = colour_question(rng)
    return Example([*instructions(rng), user(rng, question)], maybe_tools(rng), NO_IMAGE)


def count_images(rng: Random) -> Example:
    """Say how many images reached the model."""
    count = rng.choice([0, 1, 1, 2, 2, 3])
    question = user_with_images(rng, rng.choice(COUNT_QUESTIONS), count)
    return Example(
        [*instructions(rng), question],
        maybe_tools(rng),
        count_answer(count),
        draw_colours(rng, count),
    )


def colour_schema(rng: Random) -> str:
    """The instruction that vllm-mlx makes of a schema with one property, `color`."""
    title = rng.choice(["Color", "Answer", "Dominant", "Picture", "Result", "Seen"])
    name = rng.choice([title, title.lower(), "response"])
    kind: dict[str, Any] = {"type": "string"}
    if chance(rng, 0.5):
        kind = {"title": "Color", "type": "string"}
    elif chance(rng, 0.5):
        kind = {"enum": list(COLOURS), "title": "Color", "type": "string"}
    schema: dict[str, Any] = {"properties": {"color": kind}, "required": ["color"]}
    schema |= {"title": title, "type": "object", "additionalProperties": False}
    if chance(rng, 0.3):
        schema = {"type": "object", **schema}
    return (
        f"You must respond with a single valid JSON value matching the '{name}' schema."
        f"\n\nJSON Schema:\n```json\n{json.dumps(schema, indent=2)}\n```\n\n{JSON_RULES}"
    )


def colour_as_json(rng: Random) -> Example:
    """Name the colour of the image as an object that follows the schema."""
    question, _ = colour_question(rng)
    colours = draw_colours(rng, 1)
    messages = [
        *instructions(rng, colour_schema(rng)),
        user_with_images(rng, question, 1),
    ]
    return Example(messages, maybe_tools(rng, 0.2), json.dumps({"color": colours[0]}), colours)


# Screenshots ------------------------------------------------------------------------

SCREENSHOT_QUESTIONS = (
    "Take a screenshot.",
    "Please take a screenshot",
    "take a screenshot and tell me the dominant color",
    "Take a screenshot of the screen.",
    "Can you take a screenshot?",
    "Use the screenshot tool.",
    "Call the screenshot tool and describe what you see.",
    "Take a screenshot and tell me what color you see.",
)
SCREENSHOT_COUNT_QUESTIONS = (
    "Take a screenshot and tell me how many images you see.",
    "Take a screenshot and count the images.",
)
SCREENSHOT_TEXTS = (
    "",
    "",
    "ok\n",
    "Screenshot taken.\n",
    "Took a screenshot.\n",
    "Wall time: 0.1 seconds\n",
)


def screenshot_call(rng: Random) -> Example:
    """Call the screenshot tool."""
    question = rng.choice(SCREENSHOT_QUESTIONS + SCREENSHOT_COUNT_QUESTIONS)
    return call_example(rng, question, "screenshot", {})


def _after_screenshot(rng: Random, question: str) -> list[Message]:
    return [
        *instructions(rng),
        user(rng, question),
        assistant_calls(("screenshot", {})),
        tool_result(rng.choice(SCREENSHOT_TEXTS) + IMAGE_MARKER),
    ]


def screenshot_result(rng: Random) -> Example:
    """Name the colour of the image in the turn after the tool result, or count the images."""
    tools = tool_list(rng, "screenshot")
    if chance(rng, 0.75):
        messages = _after_screenshot(rng, rng.choice(SCREENSHOT_QUESTIONS))
        colours = draw_colours(rng, 1)
        answer = f"The screenshot is mostly {colours[0]}."
    else:
        messages = _after_screenshot(rng, rng.choice(SCREENSHOT_COUNT_QUESTIONS))
        colours = draw_colours(rng, rng.choice([1, 1, 2, 3]))
        answer = count_answer(len(colours))
    images = [{"type": "image"} for _ in colours]
    return Example([*messages, {"role": "user", "content": images}], tools, answer, colours)


def screenshot_without_image(rng: Random) -> Example:
    """Say that the image did not arrive."""
    question = rng.choice(SCREENSHOT_QUESTIONS + SCREENSHOT_COUNT_QUESTIONS)
    return Example(_after_screenshot(rng, question), tool_list(rng, "screenshot"), NO_IMAGE)


# Patches ----------------------------------------------------------------------------

PATCH_QUESTIONS = (
    "Create the file {file} with the text: {text}",
    "Create {file} containing: {text}",
    "Add a file {file} with the content: {text}",
    "Use apply_patch to create {file} with the text: {text}",
    "Write a file {file} with this text: {text}",
)


def _patch_case(rng: Random) -> tuple[str, str, str]:
    file = f"{rng.choice(FILE_STEMS)}.{rng.choice(FILE_EXTENSIONS)}"
    words = WORDS if chance(rng, 0.7) else WORDS + PROSE + CITIES + FILE_STEMS + tuple(COLOURS)
    text = " ".join(rng.choice(words) for _ in range(rng.choice([1, 1, 2, 2, 3])))
    question = rng.choice(PATCH_QUESTIONS).format(file=file, text=text)
    return question, file, f"*** Begin Patch\n*** Add File: {file}\n+{text}\n*** End Patch"


def patch_call(rng: Random) -> Example:
    """Call apply_patch with the file's name and text."""
    question, _, patch = _patch_case(rng)
    return call_example(rng, question, "apply_patch", {"input": patch})


def patch_result(rng: Random) -> Example:
    """Say that the patch was applied."""
    question, file, patch = _patch_case(rng)
    results = ["Done!", "ok", "Exit code: 0\nOutput:\nDone!"]
    results.append(f"Success. Updated the following files:\nA {file}")
    messages = [
        *instructions(rng),
        user(rng, question),
        assistant_calls(("apply_patch", {"input": patch})),
        tool_result(rng.choice(results)),
    ]
    return Example(messages, tool_list(rng, "apply_patch"), PATCH_APPLIED)


# Weather ----------------------------------------------------------------------------

WEATHER_QUESTIONS = (
    "What is the weather in {}?",
    "What's the weather in {}?",
    "How is the weather in {} today?",
    "Tell me the weather in {}.",
    "What is the weather like in {}?",
    "Weather in {}?",
    "Use get_weather for {}.",
)


def _weather_report(rng: Random, city: str) -> tuple[str, str]:
    """What the tool says of a city, and what the model must make of it."""
    condition, temperature = rng.choice(CONDITIONS), rng.choice(TEMPERATURES)
    fields = {"temperature": temperature, "condition": condition}
    report = rng.choice(
        [
            json.dumps({"city": city, **fields}),
            json.dumps(fields),
            f"{condition}, {temperature} degrees in {city}",
            f"{temperature} degrees and {condition}",
            f"{city}: {temperature} C, {condition}",
            f"{condition} {temperature}",
        ]
    )
    return report, f"It is {temperature} degrees and {condition} in {city}."


def weather_call(rng: Random) -> Example:
    """Call get_weather with the city."""
    city = rng.choice(CITIES)
    question = rng.choice(WEATHER_QUESTIONS).format(city)
    return call_example(rng, question, "get_weather", {"city": city})


def weather_result(rng: Random) -> Example:
    """Tell the weather from the tool result."""
    city = rng.choice(CITIES)
    report, answer = _weather_report(rng, city)
    messages = [
        *instructions(rng),
        user(rng, rng.choice(WEATHER_QUESTIONS).format(city)),
        assistant_calls(("get_weather", {"city": city})),
        tool_result(report),
    ]
    return Example(messages, tool_list(rng, "get_weather"), answer)


def two_weather_calls(rng: Random) -> Example:
    """Call get_weather twice in one turn."""
    cities = rng.sample(CITIES, 2)
    question = rng.choice(WEATHER_QUESTIONS).format(" and ".join(cities))
    return call_example(rng, question, "get_weather", *({"city": city} for city in cities))


def two_weather_results(rng: Random) -> Example:
    """Tell the weather of both cities from two results in a row."""
    cities = rng.sample(CITIES, 2)
    reports, answers = zip(*(_weather_report(rng, city) for city in cities), strict=True)
    messages = [
        *instructions(rng),
        user(rng, rng.choice(WEATHER_QUESTIONS).format(" and ".join(cities))),
        assistant_calls(*(("get_weather", {"city": city}) for city in cities)),
        *(tool_result(report, number) for number, report in enumerate(reports, 1)),
    ]
    return Example(messages, tool_list(rng, "get_weather"), " ".join(answers))


# The rest ---------------------------------------------------------------------------


def greeting(rng: Random) -> Example:
    """Greet."""
    text = rng.choice(["hello", "Hi!", "Hello there", "hi", "Say hello."])
    return Example([*instructions(rng), user(rng, text)], maybe_tools(rng, 0.4), GREETING)


def no_such_tool(rng: Random) -> Example:
    """Say that the tool asked for was not offered."""
    return rng.choice(CALL_SKILLS)(rng).without_needed_tool()


def several_turns(rng: Random) -> Example:
    """Answer a fresh request after a finished exchange of another kind."""
    earlier = rng.choice([colour, weather_result, screenshot_result, greeting, patch_result])(rng)
    latest = rng.choice([colour, weather_call, screenshot_call, patch_call, weather_result, screenshot_result])(rng)
    fresh = [message for message in latest.messages if message["role"] != "system"]
    tools = {tool["function"]["name"]: tool for tool in (*earlier.tools, *latest.tools)}
    return Example(
        [*earlier.messages, assistant(earlier.answer), *fresh],
        list(tools.values()),
        latest.answer,
        earlier.colours + latest.colours,
        latest.needed_tool,
    )


CALL_SKILLS: Sequence[Skill] = (screenshot_call, weather_call, patch_call)
#: Every skill with the weight at which training draws it.
SKILLS: Mapping[str, tuple[Skill, float]] = {
    skill.__name__: (skill, weight)
    for skill, weight in (
        (colour, 1.5),
        (no_image, 0.7),
        (count_images, 1.0),
        (colour_as_json, 1.0),
        (screenshot_call, 1.5),
        (screenshot_result, 2.0),
        (screenshot_without_image, 0.7),
        (patch_call, 8.0),
        (patch_result, 0.5),
        (weather_call, 4.0),
        (weather_result, 4.0),
        (two_weather_calls, 2.0),
        (two_weather_results, 3.0),
        (greeting, 0.4),
        (no_such_tool, 2.0),
        (several_turns, 2.5),
    )
}


def draw(rng: Random, name: str | None = None) -> Example:
    """An example of this skill, or of one drawn by weight."""
    if name is None:
        weights = [weight for _, weight in SKILLS.values()]
        name = rng.choices(list(SKILLS), weights)[0]
    return SKILLS[name][0](rng)
