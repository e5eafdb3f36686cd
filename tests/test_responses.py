"""HTTP answers: the event stream, its keepalive, and a client that is slow or goes away."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin.generation.events import TextDelta
from responses_plugin.protocol.dialects import DIALECTS, OPENAI
from responses_plugin.protocol.errors import RequestError
from responses_plugin.responses import EventStreamResponse, JsonResponse, error_response
from tests.fake_host import Connection
from tests.generation.building import FINISHED, new_builder
from tests.sse import read_stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from responses_plugin.generation.builder import ResponseBuilder
    from responses_plugin.protocol.dialects import Dialect
    from responses_plugin.protocol.response import Wire


class Answer:
    """An answer that a test makes go on, and that knows how it was closed."""

    def __init__(self) -> None:
        self.builder: ResponseBuilder = new_builder()
        self._texts: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        #: What ended it: "" when it came to its end.
        self.endings: list[str] = []
        self.clean_up_seconds = 0.0

    def say(self, *texts: str) -> None:
        for text in texts:
            self._texts.put_nowait(text)

    def finish(self) -> None:
        self._texts.put_nowait(None)

    def fail(self, error: Exception) -> None:
        self._texts.put_nowait(error)

    async def _next(self) -> str | None:
        text = await self._texts.get()
        if isinstance(text, Exception):
            raise text
        return text

    async def batches(self) -> AsyncGenerator[Sequence[Wire], None]:
        ending = ""
        try:
            yield self.builder.start()
            while (text := await self._next()) is not None:
                yield self.builder.feed(TextDelta(text))
            yield self.builder.feed(FINISHED)
        except BaseException as error:
            ending = type(error).__name__
            raise
        finally:
            await asyncio.sleep(self.clean_up_seconds)
            self.endings.append(ending)

    def connect(self, keepalive_seconds: float = 0.0, dialect: Dialect = OPENAI) -> Connection:
        return Connection(EventStreamResponse(self.batches(), self.builder, keepalive_seconds, dialect), None)


@pytest.fixture
async def answer() -> Answer:
    return Answer()


# --- The stream --------------------------------------------------------------------------------------------------


async def test_events_are_written_one_by_one_as_they_come(answer: Answer) -> None:
    """The head first, then a write an event, then the end; nothing waits for what comes next."""
    connection = answer.connect()
    await connection.until("response.in_progress")
    answer.say("Hel")
    await connection.until("Hel")
    assert connection.body.count(b"output_text.delta") == 2  # in the event: line and in its data
    answer.say("lo")
    answer.finish()
    await connection.end()
    head, *body, end = connection.sent
    assert head["type"] == "http.response.start"
    assert all(message["body"].count(b"\n\n") == 1 for message in body)
    assert all(message["more_body"] for message in body)
    assert end == {"type": "http.response.body", "body": b"", "more_body": False}
    read_stream(connection.body)
    assert answer.endings == [""]


async def test_the_head_says_what_follows(answer: Answer) -> None:
    """An event stream of unknown length that no proxy may keep or buffer."""
    connection = answer.connect()
    answer.finish()
    await connection.end()
    headers = dict(connection.sent[0]["headers"])
    assert connection.sent[0]["status"] == 200
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert headers[b"cache-control"] == b"no-cache"
    assert headers[b"x-accel-buffering"] == b"no"
    assert b"content-length" not in headers


async def test_created_is_sent_before_anything_else_comes(answer: Answer) -> None:
    """The client hears at once that its request was taken."""
    connection = answer.connect()
    await connection.until("response.created")
    answer.finish()
    await connection.end()


# --- Keepalive ---------------------------------------------------------------------------------------------------


async def test_keepalive_while_nothing_else_comes(answer: Answer) -> None:
    """Again and again, each with its number, from created on and never after the end."""
    connection = answer.connect(keepalive_seconds=0.01)
    await connection.until('"keepalive","sequence_number":3')
    answer.say("a")
    await connection.until("output_text.delta")
    answer.finish()
    await connection.end()
    await asyncio.sleep(0.03)
    types = [event.type for event in read_stream(connection.body)]
    assert types[:4] == ["response.created", "response.in_progress", "keepalive", "keepalive"]
    assert types[-1] == "response.completed"


async def test_no_keepalive_while_events_come(answer: Answer) -> None:
    """A stream that is busy needs no sign of life."""
    connection = answer.connect(keepalive_seconds=0.2)
    for _ in range(20):
        answer.say("word ")
        await asyncio.sleep(0.001)
    answer.finish()
    await connection.end()
    assert b"keepalive" not in connection.body


async def test_keepalive_can_be_switched_off(answer: Answer) -> None:
    """By an interval of 0."""
    connection = answer.connect(keepalive_seconds=0)
    await asyncio.sleep(0.02)
    answer.finish()
    await connection.end()
    assert b"keepalive" not in connection.body


async def test_keepalive_in_a_dialect_without_such_an_event(answer: Answer) -> None:
    """Comments, which take no number; and behind the last event comes what ends a stream there."""
    connection = answer.connect(0.01, DIALECTS["open-responses"])
    await connection.until("\n\n: keepalive\n\n: keepalive\n\n")
    answer.say("a")
    await connection.until("output_text.delta")
    answer.finish()
    await connection.end()
    events, end, nothing = connection.body.partition(b"data: [DONE]\n\n")
    assert (bool(end), nothing) == (True, b"")
    types = [event.type for event in read_stream(events.replace(b": keepalive\n\n", b""))]
    assert "keepalive" not in types
    assert types[-1] == "response.completed"


async def test_a_slow_client_gets_events_in_the_order_of_their_numbers(answer: Answer) -> None:
    """While it does not read, a keepalive neither piles up nor overtakes what is numbered already."""
    connection = answer.connect(keepalive_seconds=0.005)
    answer.say("a")
    await connection.until("output_text.delta")
    connection.reading.clear()
    answer.say("b", "c", "d")
    await asyncio.sleep(0.04)
    connection.reading.set()
    await connection.until('"delta":"d"')
    connection.reading.clear()
    answer.finish()
    await asyncio.sleep(0.02)
    connection.reading.set()
    await connection.end()
    read_stream(connection.body)  # checks the numbers


async def test_a_client_that_does_not_read_the_head_gets_no_keepalive_before_it(answer: Answer) -> None:
    """Nothing may come before the head."""
    connection = answer.connect(keepalive_seconds=0.005)
    connection.reading.clear()
    await asyncio.sleep(0.03)
    assert connection.sent == []
    connection.reading.set()
    answer.finish()
    await connection.end()
    assert connection.sent[0]["type"] == "http.response.start"
    read_stream(connection.body)


# --- A client that goes away ---------------------------------------------------------------------------------------


async def test_a_client_that_goes_away_cancels_what_is_waited_for(answer: Answer) -> None:
    """The answer is cancelled once, has time to clean up, and is over when the request is."""
    answer.clean_up_seconds = 0.02
    connection = answer.connect(keepalive_seconds=0.001)
    answer.say("a")
    await connection.until("output_text.delta")
    await asyncio.sleep(0)
    connection.go_away()
    await connection.end()
    assert answer.endings == ["CancelledError"]


async def test_a_client_that_goes_away_while_it_is_written_to(answer: Answer) -> None:
    """The answer is closed as well when it is not the answer that is waited for."""
    answer.clean_up_seconds = 0.02
    connection = answer.connect()
    await connection.until("response.in_progress")
    connection.reading.clear()
    answer.say("a")
    await asyncio.sleep(0.01)
    connection.go_away()
    await connection.end()
    assert answer.endings == ["GeneratorExit"]


async def test_a_client_that_was_gone_before_the_head(answer: Answer) -> None:
    """Even then the answer is begun, so that closing it lets go of what is behind it."""
    connection = answer.connect()
    connection.reading.clear()
    connection.go_away()
    await connection.end()
    assert answer.endings == ["GeneratorExit"]


async def test_a_server_that_gives_up_the_request(answer: Answer) -> None:
    """Cancelling the request, as a server that shuts down does, closes the answer before it returns."""
    answer.clean_up_seconds = 0.02
    connection = answer.connect()
    await connection.until("response.in_progress")
    await asyncio.sleep(0)
    connection.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connection.task
    assert answer.endings == ["CancelledError"]


async def test_what_goes_wrong_while_writing_is_the_servers_to_report(answer: Answer) -> None:
    """An error of the connection, or of the answer itself, closes the answer and comes out."""

    async def send(message: dict[str, Any]) -> None:
        raise OSError("broken pipe")

    response = EventStreamResponse(answer.batches(), answer.builder, 0.01)
    with pytest.raises(OSError, match="broken pipe"):
        await response({"type": "http"}, asyncio.Event().wait, send)  # type: ignore[arg-type]
    assert answer.endings == ["GeneratorExit"]
    other = Answer()
    connection = other.connect()
    other.fail(RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        await connection.end()
    assert other.endings == ["RuntimeError"]


async def test_no_task_is_left_behind(answer: Answer) -> None:
    """Whatever watched the client and kept the stream alive ends with the stream."""
    before = asyncio.all_tasks()
    connection = answer.connect(keepalive_seconds=0.01)
    answer.finish()
    await connection.end()
    assert asyncio.all_tasks() == before


# --- Other answers -------------------------------------------------------------------------------------------------


def test_json() -> None:
    """Compact, in UTF-8."""
    response = JsonResponse({"text": "é😀\n", "none": None})
    assert json.loads(response.body) == {"text": "é😀\n", "none": None}
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-length"] == str(len(response.body))


def test_errors() -> None:
    """Status, headers and the body in OpenAI's shape."""
    error = RequestError("Busy.", code="server_is_overloaded", status=503, headers={"Retry-After": "2"})
    response = error_response(error)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "2"
    assert json.loads(response.body) == error.body()
