"""Messages for multimodal engines: the tool exchange is kept whole, everything else is left as it is."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_plugin.lowering.mllm import (
    build_mllm_message,
    keeps_tool_exchange,
    parse_arguments,
    replace_stand_ins,
    restore_tool_exchange,
    stand_in,
    with_all_media,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def call(arguments: Any = '{"city": "Paris"}', call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def calling(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [call()], **fields}


@pytest.mark.parametrize("empty", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_a_call_without_text_survives_with_empty_content(empty: dict[str, Any]) -> None:
    """An assistant message that only calls a tool keeps its calls and has ``""`` for content, however it was empty."""
    built = build_mllm_message(calling(**empty))
    assert built["content"] == ""
    assert [c["function"]["name"] for c in built["tool_calls"]] == ["get_weather"]


def test_arguments_become_a_mapping() -> None:
    """The JSON text of the arguments is a mapping afterwards, and nothing else of the call changes."""
    message = calling(content="Let me look.", reasoning_content="Weather needed.")
    message["tool_calls"].append(call('{"city": "Oslo"}', "call_2"))
    built = build_mllm_message(message)
    assert built["tool_calls"] == [call({"city": "Paris"}), call({"city": "Oslo"}, "call_2")]
    assert built["content"] == "Let me look."
    assert built["reasoning_content"] == "Weather needed."


@pytest.mark.parametrize(
    ("text", "mapping"),
    [
        ("{}", {}),
        ('{"a": 1, "b": [2]}', {"a": 1, "b": [2]}),
        ('"{\\"a\\": 1}"', {"a": 1}),  # encoded twice
        ("", {"value": ""}),
        ("look north", {"value": "look north"}),
        ('{"a": ', {"value": '{"a": '}),
        ("[1, 2]", {"value": [1, 2]}),
        ("null", {"value": None}),
        ('"text"', {"value": "text"}),
        ("[" * 100_000, {"value": "[" * 100_000}),
    ],
)
def test_arguments_that_are_no_object_are_put_under_value(text: str, mapping: dict[str, Any]) -> None:
    """Templates iterate arguments, so a mapping comes out whatever the model wrote, and nothing of it is lost."""
    assert parse_arguments(text) == mapping


@pytest.mark.parametrize("arguments", [{"city": "Paris"}, None])
def test_arguments_that_are_no_text_stay(arguments: Any) -> None:
    """Arguments that are a mapping already, or missing, are nobody's to change."""
    assert build_mllm_message(calling(tool_calls=[call(arguments)]))["tool_calls"] == [call(arguments)]


@pytest.mark.parametrize("odd", [{"id": "call_1"}, {"id": "call_1", "function": None}])
def test_a_call_without_a_function_stays(odd: dict[str, Any]) -> None:
    """What has no function has no arguments to read: it is passed on, not a reason to fail."""
    assert build_mllm_message(calling(tool_calls=[odd]))["tool_calls"] == [odd]


@pytest.mark.parametrize("empty", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_an_empty_tool_result_survives(empty: dict[str, Any]) -> None:
    """A tool that returned nothing still answers its call: the id stays and the content is ``""``."""
    assert build_mllm_message({"role": "tool", "tool_call_id": "call_1", **empty}) == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "",
    }


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "u"}}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "Hello.", "reasoning_content": "Greet."},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "user", "content": "Call it.", "tool_calls": [call()]},
        {"role": "tool", "tool_call_id": "call_1", "content": "19 degrees"},
    ],
)
def test_everything_else_is_passed_on_as_it_came(message: dict[str, Any]) -> None:
    """Byte for byte, the order of keys and parts included; an empty message is still there for the host to drop."""
    assert json.dumps(build_mllm_message(message)) == json.dumps(message)


@settings(deadline=None)
@given(
    arguments=st.text() | json_values.map(json.dumps) | json_values,
    content=st.none() | st.text(),
    reasoning=st.none() | st.text(),
)
def test_it_is_pure_and_settles_at_once(arguments: Any, content: str | None, reasoning: str | None) -> None:
    """The message that came in is unchanged, building again changes nothing, and arguments as text are a mapping."""
    message = calling(content=content, reasoning_content=reasoning, tool_calls=[call(arguments)])
    before = copy.deepcopy(message)
    built = build_mllm_message(message)
    assert message == before
    assert build_mllm_message(built) == built
    if isinstance(arguments, str):
        assert isinstance(built["tool_calls"][0]["function"]["arguments"], dict)


def lossy(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A host that takes over role and content, and drops messages without text."""
    return [{"role": m["role"], "content": m["content"]} for m in messages if m["content"]]


@pytest.mark.parametrize(
    "message",
    [
        build_mllm_message(calling(content="", reasoning_content="Weather needed.")),
        build_mllm_message(calling(content="Let me look.")),
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
        {"role": "tool", "tool_call_id": "call_1", "content": "19 degrees"},
        {"role": "user", "content": "Weather?"},
    ],
)
def test_what_a_host_dropped_is_put_back(message: dict[str, Any]) -> None:
    """Of a message of the exchange everything is there again, even when the host dropped all of it."""
    assert restore_tool_exchange(message, lossy([message])) == [message]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "", "reasoning_content": "Hm."},
        {"role": "tool", "content": ""},
    ],
)
def test_an_empty_message_outside_the_exchange_stays_dropped(message: dict[str, Any]) -> None:
    """The host's rule for genuinely empty messages is not ours to change."""
    assert restore_tool_exchange(message, lossy([message])) == []


def test_the_content_that_the_host_built_is_kept() -> None:
    """Only the exchange is put back: content in the host's own form for templates is not overwritten."""
    parts = [{"type": "text", "text": "19 degrees", "content": "19 degrees"}]
    message = {"role": "tool", "tool_call_id": "call_1", "content": "19 degrees"}
    assert restore_tool_exchange(message, [{"role": "tool", "content": parts}]) == [
        {"role": "tool", "content": parts, "tool_call_id": "call_1"}
    ]


@pytest.mark.parametrize(
    ("build", "keeps"),
    [
        (lambda messages: messages, True),
        (lossy, False),
        (lambda messages: [{**m, "tool_call_id": None} for m in messages], False),
        (lambda messages: [{**m, "tool_calls": []} for m in messages], False),
        (lambda messages: messages[:2], False),
    ],
)
def test_a_host_is_judged_by_what_it_keeps(build: Any, keeps: bool) -> None:
    """Calls and ids both have to come through."""
    assert keeps_tool_exchange(build) is keeps


# --- Stand-ins, for hosts that build messages in a loop --------------------------------------------------------------

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
SOUND = {"type": "audio_url", "audio_url": {"url": "a.wav"}}
FILM = {"type": "video_url", "video_url": {"url": "a.mp4"}}
WORDS = {"type": "text", "text": "words"}
FRAMES_OF_FILM = 3


def loop(messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """The messages and payloads of a host that keeps role and text, and media of user messages in front of it."""
    built: list[dict[str, Any]] = []
    payloads: list[Any] = []
    for message in messages:
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = "".join(part.get("text", "") for part in parts)
        types = [part["type"] for part in parts]
        payloads += [part for part in parts if part["type"] != "text"]
        images = types.count("image_url") + FRAMES_OF_FILM * types.count("video_url")
        media = [{"type": "image"}] * images + [{"type": "audio"}] * types.count("audio_url")
        words = {"type": "text", "text": text, "content": text}
        if message["role"] == "user" and media:
            built.append({"role": message["role"], "content": [*media, words]})
        elif message["role"] == "assistant" and text:
            built.append({"role": message["role"], "content": text})
        elif text or media:
            built.append({"role": message["role"], "content": [words]})
    return built, payloads


def through_loop(*messages: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    built, payloads = loop([stand_in(message) for message in messages])
    return replace_stand_ins(built), payloads


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [PICTURE, FILM, SOUND, WORDS, WORDS]},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Hello."},
        {"role": "assistant", "content": None},
        {"role": "user"},
        {"role": "tool", "content": "of no call"},
    ],
)
def test_what_the_loop_gets_right_goes_through_as_it_is(message: dict[str, Any]) -> None:
    """No stand-in, the very message; so there is nothing in which the patched host could differ."""
    assert stand_in(message) is message
    assert through_loop(message) == loop([message])


@pytest.mark.parametrize("empty", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_an_exchange_comes_through_the_loop(empty: dict[str, Any]) -> None:
    """Call, arguments, reasoning, id and empty content are in the template's messages, in their places."""
    user = {"role": "user", "content": "Look."}
    question, answer, result = through_loop(
        user,
        calling(**empty, reasoning_content="Weather needed."),
        {"role": "tool", "tool_call_id": "call_1", **empty},
    )[0]
    assert question == loop([user])[0][0]
    assert answer == {
        "role": "assistant",
        "content": "",
        "tool_calls": [call({"city": "Paris"})],
        "reasoning_content": "Weather needed.",
    }
    assert result == {"role": "tool", "content": "", "tool_call_id": "call_1"}


def test_the_roles_are_plain_strings_again() -> None:
    """A template may look at more than the value, and a message may be sent to another process."""
    built, _ = through_loop(calling(), {"role": "tool", "tool_call_id": "call_1", "content": "sunny"})
    assert [type(message["role"]) for message in built] == [str, str]


def test_text_of_an_exchange_has_the_form_of_other_text() -> None:
    """An assistant's text is a string, a tool's one part."""
    called, result = through_loop(
        calling(content=[WORDS, WORDS]), {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
    )[0]
    assert called["content"] == "wordswords"
    assert result["content"] == [{"type": "text", "text": "sunny", "content": "sunny"}]


@pytest.mark.parametrize("role", ["user", "tool", "assistant", "system"])
def test_media_stay_in_their_places(role: str) -> None:
    """Each picture, sound and frame has its placeholder where it stood, and every payload is passed on."""
    parts = [WORDS, PICTURE, FILM, WORDS, SOUND]
    extra = {"tool": {"tool_call_id": "call_1"}, "assistant": {"tool_calls": [call()]}}.get(role, {})
    [built], payloads = through_loop({"role": role, "content": parts, **extra})
    types = [part["type"] for part in built["content"]]
    assert types == ["text", "image", *["image"] * FRAMES_OF_FILM, "text", "audio"]
    assert payloads == [PICTURE, FILM, SOUND]


@given(st.lists(st.sampled_from([PICTURE, SOUND, FILM, WORDS, {"type": "text", "text": ""}]), max_size=5))
def test_a_user_message_is_a_stand_in_only_if_media_would_move(parts: list[dict[str, Any]]) -> None:
    """Where the loop has the order of the parts already, the message goes through as it is."""
    message = {"role": "user", "content": parts}
    in_loop = [part["type"] for entry in loop([message])[0] for part in entry["content"] if part["type"] != "text"]
    kinds = {"image_url": ["image"], "video_url": ["image"] * FRAMES_OF_FILM, "audio_url": ["audio"], "text": ["text"]}
    in_order = [kind for part in parts for kind in kinds[part["type"]]]
    media = [kind for kind in in_order if kind != "text"]
    unmoved = media == in_loop and in_order[: len(media)] == media
    assert (stand_in(message) is message) is unmoved


def test_objects_of_the_host_are_parts_as_well() -> None:
    """Some callers pass the host's own models."""

    class Part:
        def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
            return dict(WORDS)

    entry = {"role": stand_in({"role": "tool", "tool_call_id": "call_1", "content": [Part()]})["role"], "content": []}
    assert replace_stand_ins([entry])[0]["content"] == [{**WORDS, "content": "words"}]


# --- Payloads ------------------------------------------------------------------------------------------------------


def test_content_of_an_exchange_is_that_of_a_plain_message() -> None:
    """For finding payloads a tool message or call is a user message with the same parts; all else is itself."""
    parts = [WORDS, PICTURE]
    assert with_all_media({"role": "tool", "tool_call_id": "call_1", "content": parts}) == {
        "role": "user",
        "content": parts,
    }
    assert with_all_media(calling(content=parts)) == {"role": "user", "content": parts}
    for message in (
        {"role": "user", "content": parts},
        {"role": "assistant", "content": parts},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        calling(),
    ):
        assert with_all_media(message) is message
