"""Tool messages with parts, on the host's chat path for text engines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm_mlx import server
from vllm_mlx.api.models import Message as HostMessage

from responses_plugin.hooks.host import Host
from responses_plugin.hooks.tool_text import EXTRACT, flatten_tool_messages, responses_host_patches
from responses_plugin.lowering.items import IMAGE_NOT_SHOWN
from responses_plugin.patching import PatchSet, SeamStatus
from tests.host.scripted import Script, ScriptedHost

Message = dict[str, Any]

pytestmark = pytest.mark.contract

CHAT = "/v1/chat/completions"
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
PARTS = [{"type": "text", "text": "19 degrees"}, PICTURE, {"type": "text", "text": "sunny"}]
EXCHANGE: list[Message] = [
    {"role": "user", "content": "How is it?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": PARTS},
]
TEXT = f"19 degrees\n{IMAGE_NOT_SHOWN}\nsunny"


@pytest.mark.parametrize("stream", [False, True], ids=["JSON", "SSE"])
@pytest.mark.parametrize("tool_parser", ["hermes", None], ids=["native", "as text"])
async def test_a_text_engine_gets_text(tool_parser: str | None, stream: bool) -> None:
    """Parts are lines, in tool messages and where the host makes a user message of them; no payload is shown."""
    with ScriptedHost(Script(["ok"]), mllm=False, tool_parser=tool_parser) as host:
        response = await host.post(CHAT, messages=EXCHANGE, stream=stream)
        assert response.status_code == 200
        *_, result = host.engine.calls[0].messages
    if tool_parser:
        assert result == {"role": "tool", "tool_call_id": "call_1", "content": TEXT}
    else:
        assert result == {"role": "user", "content": f"[Tool Result (call_1)]: {TEXT}"}


async def test_a_multimodal_engine_gets_the_parts() -> None:
    """Where images can be seen, the tool message is left as it is."""
    with ScriptedHost(Script(["ok"])) as host:
        await host.post(CHAT, messages=EXCHANGE)
        *_, result = host.engine.calls[0].messages
    assert [part["type"] for part in result["content"]] == ["text", "image_url", "text"]


async def test_this_host_shows_objects() -> None:
    """Left alone, the host shows the base64 of the image. Once this test fails, the patch can go."""
    with ScriptedHost(Script(["ok"]), mllm=False, tool_parser=None, plugin=False) as host:
        await host.post(CHAT, messages=EXCHANGE)
        *_, result = host.engine.calls[0].messages
    assert "AAAA" in result["content"]
    assert [patch.inspect().status for patch in responses_host_patches(host=Host())] == [SeamStatus.TAKEN]


def as_host_message(message: Message) -> Any:
    return HostMessage(**message)


parts = st.sampled_from([PICTURE, *PARTS])
other_messages = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"])},
        optional={"content": st.none() | st.text(max_size=5) | st.lists(parts, max_size=3)},
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "tool_calls": st.just([CALL])}, optional={"content": st.text(max_size=5)}
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "tool_call_id": st.just("call_1")},
        optional={"content": st.none() | st.text(max_size=5)},
    ),
)


@settings(deadline=None)
@given(messages=st.lists(other_messages, max_size=5), native=st.booleans(), objects=st.booleans())
def test_all_else_is_as_on_the_unpatched_host(messages: list[Message], native: bool, objects: bool) -> None:
    """Messages and payloads are equal wherever no tool message has parts, for mappings and the host's own objects."""
    given_messages: list[Any] = [as_host_message(message) for message in messages] if objects else messages
    original = getattr(server, EXTRACT)
    wrapped = flatten_tool_messages(original)
    assert wrapped(given_messages, preserve_native_format=native) == original(
        given_messages, preserve_native_format=native
    )


@settings(deadline=None)
@given(st.lists(parts, max_size=3))
def test_the_images_are_the_hosts_own(parts: list[dict[str, Any]]) -> None:
    """Payloads are found as before: what is not shown is not fetched either."""
    messages = [as_host_message({"role": "tool", "tool_call_id": "call_1", "content": parts})]
    original = getattr(server, EXTRACT)
    assert flatten_tool_messages(original)(messages)[1:] == original(messages)[1:]


def test_reverting_restores_the_host_exactly() -> None:
    """The very function that was there is there again."""
    before = getattr(server, EXTRACT)
    patches = PatchSet("under test", responses_host_patches(host=Host()))
    patches.apply()
    assert getattr(server, EXTRACT) is not before
    patches.revert()
    assert getattr(server, EXTRACT) is before
