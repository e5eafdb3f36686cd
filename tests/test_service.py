"""One request's way, on a host that plays replies: answers, memory, refusals, failures, and clients that go away."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin import service as service_module
from responses_plugin.hookspecs import hookimpl
from responses_plugin.plugins import load_plugins
from responses_plugin.protocol.errors import RequestError
from responses_plugin.store.memory import MemoryStore
from tests.fake_host import Connection, FakeHost, FakeStream, Reply, new_app, new_service, serving
from tests.images import data_url
from tests.openai_oracle import read_events, read_response
from tests.sse import read_stream, terminal_response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx
    from fastapi import Request

    from responses_plugin.context import RequestContext
    from responses_plugin.engine import ChatCall

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
SCREENSHOT = {"type": "function", "name": "screenshot", "parameters": {"type": "object", "properties": {}}}
PATCH = {"type": "custom", "name": "apply_patch"}

Json = dict[str, Any]


async def ask(client: httpx.AsyncClient, input: Any = "hi", **fields: Any) -> Json:
    """The response to one request, streamed or not, checked as a strict client would."""
    answer = await client.post("/v1/responses", json={"model": "m", "input": input, **fields})
    assert answer.status_code == 200, answer.text
    if fields.get("stream"):
        events = read_stream(answer.content)
        read_events(events)
        return terminal_response(events)
    read_response(answer.json())
    made: Json = answer.json()
    return made


async def refusal(client: httpx.AsyncClient, status: int, input: Any = "hi", **fields: Any) -> Json:
    """The error that a request is refused with."""
    answer = await client.post("/v1/responses", json={"model": "m", "input": input, **fields})
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


def text_of(response: Json) -> str:
    return "".join(item["content"][0]["text"] for item in response["output"] if item["type"] == "message")


def without_ids(output: list[Json]) -> list[Json]:
    return [{name: value for name, value in item.items() if name not in {"id", "call_id"}} for item in output]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


streamed = pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])


# --- Answers -----------------------------------------------------------------------------------------------------


@streamed
async def test_an_answer(stream: bool) -> None:
    """Thought, text and calls of every kind, with the counts of the host and the reasoning counted."""
    host = FakeHost(Reply("Let me look.", "Hm, well.", [("get_weather", "{}"), ("apply_patch", '{"input": "a\\n"}')]))
    async with serving(host) as client:
        response = await ask(client, tools=[WEATHER, PATCH], stream=stream)
    thought, message, weather, patch = response["output"]
    assert thought["content"][0]["text"] == "Hm, well."
    assert message["content"][0]["text"] == "Let me look."
    assert (weather["type"], weather["arguments"]) == ("function_call", "{}")
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "a\n")
    assert response["status"] == "completed"
    assert response["usage"]["total_tokens"] == 8
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
    assert host.calls[0].body["model"] == "m"
    assert host.calls[0].body["stream"] is stream


@pytest.mark.parametrize(
    "reply",
    [
        Reply("Hello there."),
        Reply("", "Only a thought."),
        Reply("Cut", finish_reason="length"),
        Reply("", calls=[("get_weather", '{"city": "Paris"}'), ("apply_patch", '{"input": "a", "b": 1}')]),
        Reply(),
    ],
)
async def test_streamed_or_not_the_answer_is_the_same(reply: Reply) -> None:
    """The two forms differ in nothing but ids."""
    async with serving(FakeHost(reply)) as client:
        at_once = await client.post("/v1/responses", json={"model": "m", "input": "hi", "tools": [WEATHER, PATCH]})
        stream = await client.post(
            "/v1/responses", json={"model": "m", "input": "hi", "tools": [WEATHER, PATCH], "stream": True}
        )
    # What is ambiguous cannot be streamed as it ends, so the items of this one stream are not checked here.
    last = json.loads(stream.content.split(b"\n\n")[-2].split(b"data: ")[1])["response"]
    assert without_ids(last["output"]) == without_ids(at_once.json()["output"])
    for field in ("status", "incomplete_details", "usage", "error", "tools"):
        assert last[field] == at_once.json()[field]


@streamed
async def test_a_large_body_is_read_like_a_small_one(stream: bool) -> None:
    """One that is parsed beside the event loop, images and all."""
    picture = {"type": "input_image", "image_url": data_url("red")}
    words = {"type": "input_text", "text": "word " * 100_000}
    host = FakeHost(Reply("Red."))
    async with serving(host) as client:
        response = await ask(client, [{"role": "user", "content": [words, picture]}], stream=stream)
    assert text_of(response) == "Red."
    assert host.conversations[0][0]["content"][1]["type"] == "image_url"


async def test_messages_are_lowered_for_the_engine_that_answers() -> None:
    """What the engine cannot see is refused before it is asked; the tool exchange is made ready for one that can."""
    picture = [{"role": "user", "content": [{"type": "input_image", "image_url": data_url("red")}]}]
    async with serving(FakeHost(supports_images=False)) as client:
        error = await refusal(client, 400, picture)
    assert error["param"].startswith("input[0]")
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}
    output = {"type": "function_call_output", "call_id": "c", "output": "1"}
    for supports_images, arguments in ((True, {"a": 1}), (False, '{"a": 1}')):
        host = FakeHost(supports_images=supports_images)
        async with serving(host) as client:
            await ask(client, [user("hi"), call, output])
        assert host.conversations[0][1]["tool_calls"][0]["function"]["arguments"] == arguments


# --- Stored turns --------------------------------------------------------------------------------------------------


@streamed
async def test_a_stored_response_can_be_had_again_and_deleted(stream: bool) -> None:
    """GET gives exactly the object that ended the answer; after DELETE it is gone."""
    async with serving(FakeHost(Reply("Hello."))) as client:
        response = await ask(client, stream=stream)
        path = f"/v1/responses/{response['id']}"
        assert (await client.get(path)).json() == response
        deleted = await client.delete(path)
        assert deleted.json() == {"id": response["id"], "object": "response", "deleted": True}
        for gone in (await client.get(path), await client.delete(path)):
            assert gone.status_code == 404
            assert gone.json()["error"]["code"] == "response_not_found"


@streamed
async def test_a_response_that_is_not_to_be_stored_is_not(stream: bool) -> None:
    """With ``store: false`` nothing of it can be had, continued or referred to."""
    async with serving(FakeHost(Reply("Hello."))) as client:
        response = await ask(client, store=False, stream=stream)
        assert response["store"] is False
        assert (await client.get(f"/v1/responses/{response['id']}")).status_code == 404
        error = await refusal(client, 404, previous_response_id=response["id"])
        assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")
        error = await refusal(client, 404, [{"type": "item_reference", "id": response["output"][0]["id"]}])
        assert (error["code"], error["param"]) == ("item_not_found", "input[0].id")


@pytest.mark.parametrize("path", ["/v1/responses/resp_nope", "/v1/responses/a%20b", "/v1/responses/é"])
async def test_unknown_ids(path: str) -> None:
    """Are a 404 in OpenAI's shape that repeats the id."""
    async with serving(FakeHost()) as client:
        for method in ("GET", "DELETE"):
            answer = await client.request(method, path)
            assert answer.status_code == 404
            assert answer.json()["error"]["code"] == "response_not_found"


@streamed
async def test_a_turn_continues_the_one_before(stream: bool) -> None:
    """The model sees the whole conversation, thoughts and calls included; each turn's messages begin the next one's."""
    host = FakeHost(
        Reply("Let me look.", "Hm.", [("get_weather", '{"city": "Paris"}')]), Reply("Sunny.", "Well."), Reply("Yes.")
    )
    async with serving(host) as client:
        first = await ask(client, "Weather?", tools=[WEATHER], stream=stream)
        call_id = first["output"][-1]["call_id"]
        output = {"type": "function_call_output", "call_id": call_id, "output": "19 degrees"}
        second = await ask(client, [output], previous_response_id=first["id"], tools=[WEATHER], stream=stream)
        third = await ask(client, "Sure?", previous_response_id=second["id"], tools=[WEATHER], stream=stream)
    assert third["previous_response_id"] == second["id"]
    one, two, three = host.conversations
    assert two[: len(one)] == one
    assert three[: len(two)] == two
    assert [message["role"] for message in three] == ["user", "assistant", "tool", "assistant", "user"]
    assert three[1]["reasoning_content"] == "Hm."
    assert three[1]["content"] == "Let me look."
    assert three[1]["tool_calls"][0]["id"] == three[2]["tool_call_id"] == call_id
    assert three[3]["content"] == "Sunny."


async def test_a_chain_may_fork_and_continue_an_incomplete_answer() -> None:
    """Two requests may continue one response, and one that was cut off can be continued."""
    host = FakeHost(Reply("Cut", finish_reason="length"), Reply("a"), Reply("b"))
    async with serving(host) as client:
        first = await ask(client, "one")
        assert first["status"] == "incomplete"
        await ask(client, "two", previous_response_id=first["id"])
        await ask(client, "three", previous_response_id=first["id"])
    assert [message["content"] for message in host.conversations[1]] == ["one", "Cut", "two"]
    assert [message["content"] for message in host.conversations[2]] == ["one", "Cut", "three"]


async def test_instructions_are_not_carried_over_and_system_items_are() -> None:
    """As OpenAI has it: the next request brings its own instructions."""
    host = FakeHost(Reply("a"))
    async with serving(host) as client:
        items = [{"role": "system", "content": "Item."}, user("one")]
        first = await ask(client, items, instructions="First.")
        second = await ask(client, "two", previous_response_id=first["id"], instructions="Second.")
        await ask(client, "three", previous_response_id=second["id"])
    systems = [conversation[0]["content"] for conversation in host.conversations]
    assert systems == ["First.\n\nItem.", "Second.\n\nItem.", "Item."]


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
async def test_a_conversation_holds_its_turns(conversation: Any) -> None:
    """By its id, which nobody has to create; other conversations and single requests are not in it."""
    host = FakeHost(Reply("a"))
    async with serving(host) as client:
        await ask(client, "one", conversation=conversation)
        await ask(client, "elsewhere", conversation="conv_2")
        await ask(client, "nowhere")
        await ask(client, "secret", conversation="conv_1", store=False)
        response = await ask(client, "two", conversation="conv_1")
    assert response["conversation"] == {"id": "conv_1"}
    assert [message["content"] for message in host.conversations[-1]] == ["one", "a", "two"]


async def test_a_reference_stands_for_the_item() -> None:
    """Of an answer or of a request that had ids, in its place among the other items."""
    host = FakeHost(Reply("Blue.", "Hm."), Reply("ok"))
    async with serving(host) as client:
        question = {"id": "msg_mine", "role": "user", "content": "Colour?"}
        first = await ask(client, [question])
        thought, message = first["output"]
        references = [{"type": "item_reference", "id": id} for id in ("msg_mine", thought["id"], message["id"])]
        await ask(client, [*references, user("Sure?")])
        await ask(client, [{"id": message["id"]}, user("Short form?")])
    whole = host.conversations[1]
    assert [message["role"] for message in whole] == ["user", "assistant", "user"]
    assert whole[0]["content"] == "Colour?"
    assert whole[1] == {"role": "assistant", "content": "Blue.", "reasoning_content": "Hm."}
    assert host.conversations[2][0]["content"] == "Blue."


@pytest.mark.parametrize("way", ["full", "previous_response_id", "conversation", "item_reference"])
async def test_phases_are_carried_through(way: str) -> None:
    """Whichever way a client goes on, its messages keep their phases, and the prompt is the same with and without."""
    seen: list[Json] = []

    class Watcher:
        @hookimpl
        def responses_lower_input_item(self, item: Any) -> None:
            seen.append(item.wire())

    said = [
        {"id": f"msg_{phase}", "type": "message", "role": "assistant", "content": f"{phase}.", "phase": phase}
        for phase in ("commentary", "final_answer")
    ]
    unmarked = [{name: value for name, value in item.items() if name != "phase"} for item in said]
    fields = {"conversation": "conv_1"} if way == "conversation" else {}
    host = FakeHost(Reply("ok"))
    async with serving(host, plugins=load_plugins([("watcher", Watcher())], discover=False)) as client:
        first = await ask(client, [user("a"), *said], **fields)
        seen.clear()
        if way == "full":
            await ask(client, [user("a"), *said, *first["output"], user("b")])
        elif way == "item_reference":
            references = [{"type": "item_reference", "id": item["id"]} for item in (*said, *first["output"])]
            await ask(client, [user("a"), *references, user("b")])
        else:
            await ask(client, [user("b")], **(fields or {"previous_response_id": first["id"]}))
        assert [item.get("phase") for item in seen if item.get("role") == "assistant"] == [
            "commentary",
            "final_answer",
            None,
        ]
        assert "phase" not in first["output"][0], "a null is refused by strict clients"
        await ask(client, [user("a"), *unmarked, *first["output"], user("b")])
    assert host.conversations[-1] == host.conversations[-2]


async def test_a_gap_in_a_chain_is_named() -> None:
    """A response whose beginning is gone cannot be continued; the error says what is missing and what to do."""
    async with serving(FakeHost(Reply("a"))) as client:
        first = await ask(client, "one")
        second = await ask(client, "two", previous_response_id=first["id"])
        await client.delete(f"/v1/responses/{first['id']}")
        error = await refusal(client, 404, "three", previous_response_id=second["id"])
    assert error["code"] == "previous_response_not_found"
    assert first["id"] in error["message"]
    assert second["id"] in error["message"]
    assert "input" in error["message"]


async def test_an_active_chain_outlives_others() -> None:
    """Over the limit of entries the turns of other clients go first, however old the chain is."""
    host = FakeHost(Reply("a"))
    async with serving(host, store=MemoryStore(4, 1 << 20)) as client:
        last = first = await ask(client, "0")
        for turn in range(1, 3):
            others = [await ask(client, "other") for _ in range(2)]
            last = await ask(client, str(turn), previous_response_id=last["id"])
        assert (await client.get(f"/v1/responses/{first['id']}")).status_code == 200
        assert (await client.get(f"/v1/responses/{others[0]['id']}")).status_code == 404
        await ask(client, "3", previous_response_id=last["id"])
    assert [message["content"] for message in host.conversations[-1]][::2] == ["0", "1", "2", "3"]


async def test_large_turns_push_out_old_ones() -> None:
    """The store is bounded by bytes as well."""
    async with serving(FakeHost(Reply("a")), store=MemoryStore(100, 100_000)) as client:
        responses = [await ask(client, "x" * 40_000) for _ in range(3)]
        found = [(await client.get(f"/v1/responses/{response['id']}")).status_code for response in responses]
    assert found == [404, 200, 200]


# --- Replay, with images -------------------------------------------------------------------------------------------


async def _exchange(client: httpx.AsyncClient, host: FakeHost, way: str) -> list[Any]:
    """A question, a screenshot with an image, an answer and one more question; the messages of the last request."""
    question = [{"role": "user", "content": [{"type": "input_text", "text": "What do you see?"}]}]
    output = {
        "type": "function_call_output",
        "output": [
            {"type": "input_text", "text": "1280x720"},
            {"type": "input_image", "image_url": data_url("blue"), "detail": "high"},
            {"type": "input_image", "image_url": data_url("red")},
        ],
    }
    last = [{"role": "user", "content": [{"type": "input_image", "image_url": data_url("green")}]}]
    fields: Json = {"tools": [SCREENSHOT], "instructions": "Be brief."}
    if way == "conversation":
        fields["conversation"] = "conv_1"
    first = await ask(client, question, **fields)
    output["call_id"] = first["output"][-1]["call_id"]
    if way == "conversation":
        await ask(client, [output], **fields)
        await ask(client, last, **fields)
        return host.conversations[-1]
    if way == "previous_response_id":
        second = await ask(client, [output], previous_response_id=first["id"], **fields)
        await ask(client, last, previous_response_id=second["id"], **fields)
        return host.conversations[-1]
    second = await ask(client, [*question, *first["output"], output], **fields)
    items = [*first["output"], output, *second["output"]]
    if way == "item_reference":
        items = [{"type": "item_reference", "id": item["id"]} if "id" in item else item for item in items]
    await ask(client, [*question, *items, *last], **fields)
    return host.conversations[-1]


@pytest.mark.parametrize("supports_images", [True, False], ids=["vision", "text"])
async def test_stored_response_with_image_tool_output_replays_identically(supports_images: bool) -> None:
    """Whoever replays the conversation, the client or the store, the model is given the same messages, images too."""
    replays = {}
    for way in ("full", "previous_response_id", "conversation", "item_reference"):
        host = FakeHost(
            Reply("Let me look.", "Hm.", [("screenshot", '{"display": 1}')]),
            Reply("Blue and red."),
            supports_images=supports_images,
        )
        async with serving(host) as client:
            try:
                replays[way] = await _exchange(client, host, way)
            except AssertionError:
                # The image of the last message is refused by a model without vision; what it was given before counts.
                if supports_images:
                    raise
                replays[way] = host.conversations[-1]
    call_ids = {way: messages[2]["tool_calls"][0]["id"] for way, messages in replays.items()}
    texts = {way: json.dumps(messages).replace(call_ids[way], "call") for way, messages in replays.items()}
    assert len(set(texts.values())) == 1, texts
    messages = replays["full"]
    assert [message["role"] for message in messages[:4]] == ["system", "user", "assistant", "tool"]
    assert messages[3]["content"].startswith("1280x720\n")
    if supports_images:
        assert [part["image_url"]["url"] for part in messages[4]["content"]] == [data_url("blue"), data_url("red")]
        assert messages[4]["content"][0]["image_url"]["detail"] == "high"
        assert [message["role"] for message in messages[4:]] == ["user", "assistant", "user"]


# --- Refusals before the stream ------------------------------------------------------------------------------------


@streamed
@pytest.mark.parametrize(
    "refused",
    [
        RequestError("No such model.", param="model", code="model_not_found", status=404),
        RequestError("Too long.", param="input", code="context_length_exceeded"),
        RequestError(
            "Busy.", code="server_is_overloaded", status=503, type="server_error", headers={"Retry-After": "1"}
        ),
    ],
    ids=lambda error: error.code,
)
async def test_what_the_host_refuses_is_an_http_error(refused: RequestError, stream: bool) -> None:
    """While there is still a status to choose: clients act on it, and a stream that fails is retried in vain."""
    async with serving(FakeHost(Reply(refusal=refused))) as client:
        answer = await client.post("/v1/responses", json={"model": "m", "input": "hi", "stream": stream})
    assert answer.status_code == refused.status
    assert answer.json() == refused.body()
    assert answer.headers.get("retry-after") == (refused.headers or {}).get("Retry-After")


@streamed
async def test_a_bug_is_an_http_error_that_tells_nothing(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The client gets a 500 in OpenAI's shape, the log the rest."""
    async with serving(FakeHost(Reply(refusal=ValueError("secret")))) as client:
        error = await refusal(client, 500, stream=stream)
    assert error["code"] == "server_error"
    assert "secret" not in error["message"]
    assert "secret" in caplog.text


@streamed
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": "m"}', b'{"model": "m", "input": [7]}', b"\xff"])
async def test_a_bad_body_never_reaches_the_host(body: bytes, stream: bool) -> None:
    """It is a 400 in OpenAI's shape."""
    host = FakeHost()
    async with serving(host) as client:
        if stream and body.startswith(b"{"):
            body = body.replace(b"{", b'{"stream": true, ', 1)
        answer = await client.post("/v1/responses", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
    assert host.calls == []


@pytest.mark.parametrize("said", [True, False], ids=["length said", "length not said"])
async def test_a_body_over_the_limit_is_refused_while_it_comes(said: bool) -> None:
    """With a 413 that says what to do, before the rest of it is taken; one at the limit is answered."""

    async def body(size: int) -> AsyncIterator[bytes]:
        nonlocal taken
        start, end = b'{"model": "m", "input": "', b'"}'
        yield start
        for _ in range(size - len(start) - len(end)):
            taken += 1
            yield b"x"
        yield end

    host = FakeHost()
    async with serving(host, max_body_bytes=1000) as client:
        for size, status in ((1000, 200), (1500, 413)):
            taken = 0
            headers = {"content-type": "application/json", **({"content-length": str(size)} if said else {})}
            answer = await client.post("/v1/responses", content=body(size), headers=headers)
            assert answer.status_code == status
    assert answer.json()["error"]["code"] == "request_too_large"
    assert taken <= 1000
    assert len(host.calls) == 1


@streamed
async def test_a_client_that_is_gone_before_its_answer(stream: bool) -> None:
    """The host says so; nobody is left to tell."""
    async with serving(FakeHost(Reply(gone=True))) as client:
        answer = await client.post("/v1/responses", json={"model": "m", "input": "hi", "stream": stream})
    assert answer.status_code == 499


# --- Refusals and failures within the stream -------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream begins at once, however long the host takes to open its answer."""
    monkeypatch.setattr(service_module, "_REFUSAL_SECONDS", 0.001)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("refused", "code", "message"),
    [
        (RequestError("Too long.", code="context_length_exceeded"), "context_length_exceeded", "Too long."),
        (RequestError("Not allowed.", status=403), "invalid_prompt", "Not allowed."),
        (ValueError("secret"), "server_error", "The server failed; its log has the details."),
        (None, "server_error", "The client closed the connection."),
    ],
)
async def test_a_late_refusal_ends_the_stream(refused: Exception | None, code: str, message: str) -> None:
    """A host that takes its time must not leave the client without a sign: the stream begins, and then fails."""
    opening = asyncio.Event()
    host = FakeHost(Reply(opening=opening, refusal=refused, gone=refused is None))
    connection = Connection(
        new_app(new_service(host, keepalive_seconds=0.005)), {"model": "m", "input": "hi", "stream": True}
    )
    await connection.until("keepalive")
    opening.set()
    await connection.end()
    response = terminal_response(read_stream(connection.body))
    assert response["status"] == "failed"
    assert response["error"] == {"code": code, "message": message}
    assert "secret" not in connection.body.decode()


@pytest.mark.usefixtures("impatient")
async def test_an_answer_that_is_opened_late_is_whole() -> None:
    """Loading a model takes long; the client sees keepalives meanwhile and then the answer."""
    opening = asyncio.Event()
    host = FakeHost(Reply("Hello.", opening=opening))
    connection = Connection(
        new_app(new_service(host, keepalive_seconds=0.005)), {"model": "m", "input": "hi", "stream": True}
    )
    await connection.until('"keepalive","sequence_number":3')
    opening.set()
    await connection.end()
    assert text_of(terminal_response(read_stream(connection.body))) == "Hello."
    assert host.streams[0].closed == 1


@pytest.mark.parametrize("failure", [RuntimeError("secret"), RequestError("Slow down.", code="rate_limit_exceeded")])
async def test_a_failure_in_the_middle_ends_the_stream(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """With what had come by then, one terminal event, and the engine given back; nothing is stored."""
    host = FakeHost(Reply("Hello you there.", failure=failure, failure_after=2))
    async with serving(host) as client:
        response = await ask(client, stream=True)
        assert (await client.get(f"/v1/responses/{response['id']}")).status_code == 404
    assert response["status"] == "failed"
    assert text_of(response) == "Hello you"
    assert response["output"][0]["status"] == "incomplete"
    known = isinstance(failure, RequestError)
    assert response["error"]["code"] == ("rate_limit_exceeded" if known else "server_error")
    assert ("secret" in caplog.text) is not known
    assert "secret" not in json.dumps(response)
    assert host.streams[0].closed == 1


@pytest.mark.parametrize(
    "reply", [Reply("Hel", finish_reason=None), Reply("Hel", finish_reason="error")], ids=["no reason", "error"]
)
async def test_an_answer_that_breaks_off_fails(reply: Reply) -> None:
    """Whatever the host says or does not say about it."""
    async with serving(FakeHost(reply)) as client:
        response = await ask(client, stream=True)
    assert response["status"] == "failed"


# --- A client that goes away ---------------------------------------------------------------------------------------


def streaming(host: FakeHost, store: MemoryStore | None = None) -> Connection:
    service = new_service(host, store=store, keepalive_seconds=0.001)
    return Connection(new_app(service), {"model": "m", "input": "hi", "stream": True})


async def test_a_client_that_goes_away_stops_the_engine() -> None:
    """Its stream is cancelled once and closed once, and nothing of the answer is stored."""
    store = MemoryStore(10, 1 << 20)
    host = FakeHost(Reply("Hello you.", gates={1: asyncio.Event()}))
    connection = streaming(host, store)
    await connection.until("Hello")
    await asyncio.sleep(0)
    connection.go_away()
    await connection.end()
    assert (host.streams[0].cancelled, host.streams[0].closed) == (1, 1)
    assert not store._turns


async def test_a_client_that_goes_away_while_it_is_written_to_stops_the_engine() -> None:
    """The engine is given back even though nobody was waiting for it."""
    gate = asyncio.Event()
    host = FakeHost(Reply("Hello you.", gates={1: gate}))
    connection = streaming(host)
    await connection.until("Hello")
    connection.reading.clear()
    gate.set()
    await asyncio.sleep(0.01)
    connection.go_away()
    await connection.end()
    assert host.streams[0].closed == 1


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_goes_away_while_the_answer_is_opened() -> None:
    """The host is not left to open an answer that nobody reads."""
    host = FakeHost(Reply(opening=asyncio.Event()))
    connection = streaming(host)
    await connection.until("keepalive")
    connection.go_away()
    await connection.end()
    assert host.cancelled_openings == 1
    assert host.streams == []


async def test_a_request_that_is_given_up_while_the_answer_is_opened() -> None:
    """Before the stream begins, too, and also if the host opens the answer nevertheless."""
    host = FakeHost(Reply(opening=asyncio.Event()))
    connection = streaming(host)
    await asyncio.sleep(0.01)
    connection.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connection.task
    assert host.cancelled_openings == 1

    opened = FakeStream(Reply())

    class StubbornHost(FakeHost):
        async def stream(self, call: ChatCall, raw_request: Request) -> FakeStream:
            try:
                await super().stream(call, raw_request)
            except asyncio.CancelledError:
                return opened
            raise AssertionError

    connection = streaming(StubbornHost(Reply(opening=asyncio.Event())))
    await asyncio.sleep(0.01)
    connection.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connection.task
    assert opened.closed == 1


async def test_a_stream_that_was_gone_before_it_began() -> None:
    """The answer was opened already; it is closed."""
    host = FakeHost(Reply("Hello."))
    connection = streaming(host)
    connection.reading.clear()
    connection.go_away()
    await connection.end()
    assert host.streams[0].closed == 1


async def test_an_answer_that_came_to_its_end_is_closed_once() -> None:
    """The host gives its engine back when its stream is closed, whether or not it was read to the end."""
    host = FakeHost(Reply("Hello."))
    async with serving(host) as client:
        await ask(client, stream=True)
    assert (host.streams[0].cancelled, host.streams[0].closed) == (0, 1)


async def test_a_stream_that_cannot_be_closed_ends_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """The client has its answer; a connection that breaks after it would look like an error."""
    connection = streaming(FakeHost(Reply("Hello.", closing=RuntimeError("cannot close"))))
    await connection.end()
    assert text_of(terminal_response(read_stream(connection.body))) == "Hello."
    assert connection.sent[-1]["more_body"] is False
    assert "cannot close" in caplog.text


async def test_a_client_that_goes_away_in_the_middle_of_its_body() -> None:
    """There is nothing to answer, and nothing to log."""
    host = FakeHost()
    connection = Connection(new_app(new_service(host)), None)
    connection.go_away()
    await connection.end()
    assert connection.sent[0]["status"] == 499
    assert host.calls == []


async def test_keepalive_while_the_engine_is_slow() -> None:
    """Between created and the end, in the numbering of the stream."""
    gate = asyncio.Event()
    connection = streaming(FakeHost(Reply("Hello you.", gates={1: gate})))
    await connection.until("keepalive")
    gate.set()
    await connection.end()
    read_events(read_stream(connection.body))


# --- Observers and the store, which may fail -------------------------------------------------------------------------


class Observer:
    """A plugin that watches, and may raise."""

    def __init__(self, *, raises: bool = False) -> None:
        self._raises = raises
        self.seen: list[str] = []

    @hookimpl
    def responses_completed(self, response: Mapping[str, Any], context: RequestContext) -> None:
        assert context.request.model == "m"
        self.seen.append(response["status"])
        if self._raises:
            raise RuntimeError("an observer's bug")


@streamed
@pytest.mark.parametrize("raises", [False, True])
async def test_observers_are_told_of_every_response(stream: bool, raises: bool) -> None:
    """Once each, however it ended, stored or not; one that raises spoils nothing."""
    observer = Observer(raises=raises)
    plugins = load_plugins([("observer", observer)], discover=False)
    host = FakeHost(Reply("a"), Reply("Cut", finish_reason="length"), Reply("a"))
    async with serving(host, plugins=plugins) as client:
        for store in (True, True, False):
            await ask(client, stream=stream, store=store)
    assert observer.seen == ["completed", "incomplete", "completed"]


@pytest.mark.parametrize(
    "reply", [Reply("a", failure=RuntimeError("x")), Reply("a", failure=RequestError("x")), Reply(finish_reason=None)]
)
async def test_observers_are_told_of_failures(reply: Reply) -> None:
    """Whether the host says that it failed or raises."""
    observer = Observer()
    async with serving(FakeHost(reply), plugins=load_plugins([("observer", observer)], discover=False)) as client:
        await ask(client, stream=True)
    assert observer.seen == ["failed"]


@streamed
async def test_an_answer_that_cannot_be_stored_is_still_an_answer(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The store may fail, and so may a plugin that is to read the answer back; the log says so."""

    class BrokenStore(MemoryStore):
        def save(self, turn: Any) -> None:
            raise OSError("disk full")

    class BrokenPlugin:
        @hookimpl
        def responses_parse_input_item(self, item: Mapping[str, Any], context: RequestContext) -> None:
            if context.path == "output":
                raise RequestError("cannot read this")

    for options in (
        {"store": BrokenStore(10, 1000)},
        {"plugins": load_plugins([("broken", BrokenPlugin())], discover=False)},
    ):
        caplog.clear()
        async with serving(FakeHost(Reply("Hello.")), **options) as client:
            assert text_of(await ask(client, stream=stream)) == "Hello."
        assert "cannot be stored" in caplog.text


async def test_a_streamed_answer_is_stored_before_the_client_hears_of_its_end() -> None:
    """It may ask for it at once."""
    store = MemoryStore(10, 1 << 20)
    connection = streaming(FakeHost(Reply("Hello.")), store)
    await connection.until("response.completed")
    (stored,) = store._turns.values()
    assert stored.response == terminal_response(read_stream(connection.body))
    await connection.end()
