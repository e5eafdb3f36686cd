"""The stream builder: a state machine whose every output a strict client accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.generation.builder import IllegalStep, ResponseBuilder
from responses_plugin.generation.events import (
    CallArguments,
    CallFinished,
    CallStarted,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
)
from responses_plugin.generation.items import OutputItemKind, VerbatimDecoder
from responses_plugin.generation.json_text import unwrap_single_string
from responses_plugin.kinds.function import FUNCTION
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.events import TERMINAL
from responses_plugin.protocol.response import Usage
from responses_plugin.protocol.sealed import unseal
from tests.generation.building import (
    COMPLETED_AT,
    CREATED_AT,
    FINISHED,
    FS_READ,
    TRUNCATED,
    USAGE,
    answers,
    build,
    call,
    events_of,
    new_builder,
    read,
    run,
    types,
)
from tests.generation.effort import lines_executed, longest_string
from tests.openai_oracle import read_events, read_response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from responses_plugin.generation.events import GenerationEvent
    from responses_plugin.protocol.response import Wire

PATCH = "*** Begin Patch\n*** End Patch"

#: What every message, thought and call goes through.
MESSAGE = ["output_item.added", "content_part.added", "output_text.delta"]
MESSAGE_DONE = ["output_text.done", "content_part.done", "output_item.done"]
THOUGHT = ["output_item.added", "content_part.added", "reasoning_text.delta"]
THOUGHT_DONE = ["reasoning_text.done", "content_part.done", "output_item.done"]
CALL = ["output_item.added"]
CALL_DONE = ["function_call_arguments.done", "output_item.done"]


def terminal(made: Sequence[Wire]) -> Wire:
    """The response object of the terminal event."""
    response: Wire = made[-1]["response"]
    return response


def items(made: Sequence[Wire]) -> list[Wire]:
    """The items as they were when they were done."""
    return [event["item"] for event in made if event["type"] == "response.output_item.done"]


# --- The state machine -------------------------------------------------------------------------------------------

Step = "Callable[[ResponseBuilder], list[Wire]]"


def start(builder: ResponseBuilder) -> list[Wire]:
    return builder.start()


def keepalive(builder: ResponseBuilder) -> list[Wire]:
    return builder.keepalive()


def feeding(event: GenerationEvent) -> Callable[[ResponseBuilder], list[Wire]]:
    def feed(builder: ResponseBuilder) -> list[Wire]:
        return builder.feed(event)

    feed.__name__ = type(event).__name__
    return feed


think, say = feeding(ReasoningDelta("Hm.")), feeding(TextDelta("Yes."))
begin_call, grow_call, end_call = map(feeding, (CallStarted("get_weather"), CallArguments("{}"), CallFinished()))
finish, cut_off, fail = map(feeding, (FINISHED, TRUNCATED, Failed("broken")))
EVERY_STEP = [start, keepalive, think, say, begin_call, grow_call, end_call, finish, cut_off, fail]

#: For each state of the machine, a way into it and the steps that are allowed there.
STATES = {
    "NEW": ([], [start]),
    "IDLE": ([start], [keepalive, think, say, begin_call, finish, cut_off, fail]),
    "REASONING": ([start, think], [keepalive, think, say, begin_call, finish, cut_off, fail]),
    "MESSAGE": ([start, say], [keepalive, think, say, begin_call, finish, cut_off, fail]),
    "CALL": (
        [start, begin_call],
        [keepalive, think, say, begin_call, grow_call, end_call, finish, cut_off, fail],
    ),
    "CALL CLOSED": ([start, begin_call, end_call], [keepalive, think, say, begin_call, finish, cut_off, fail]),
    "DONE": ([start, say, finish], []),
    "DONE, CUT OFF": ([start, say, cut_off], []),
    "DONE, FAILED": ([start, begin_call, fail], []),
}


def state_of(value: object) -> object:
    """Everything an object of ours consists of, comparable and independent of it."""
    if isinstance(value, dict):
        return {key: state_of(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [state_of(element) for element in value]
    if type(value).__module__.startswith("responses_plugin.generation") and hasattr(value, "__dict__"):
        return type(value), state_of(vars(value))
    return value


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("step", EVERY_STEP, ids=lambda step: step.__name__)
def test_each_step_is_allowed_or_changes_nothing(state: str, step: Callable[[ResponseBuilder], list[Wire]]) -> None:
    """Every step in every state: it makes events, or it raises and leaves the builder exactly as it was."""
    way, allowed = STATES[state]
    builder = new_builder()
    for taken in way:
        taken(builder)
    if step in allowed:
        step(builder)
        return
    before = state_of(builder)
    with pytest.raises(IllegalStep):
        step(builder)
    assert state_of(builder) == before


@given(st.lists(st.sampled_from(EVERY_STEP), max_size=25))
def test_illegal_steps_leave_no_trace(steps: list[Callable[[ResponseBuilder], list[Wire]]]) -> None:
    """A stream with illegal steps tried in between is the stream without them."""
    tried, plain = new_builder(), new_builder()
    made: list[Wire] = []
    taken: list[Wire] = []
    for step in steps:
        try:
            made += step(tried)
        except IllegalStep:
            continue
        taken += step(plain)
    assert made == taken
    assert state_of(tried) != state_of(new_builder()) or not made
    assert [event["sequence_number"] for event in made] == list(range(len(made)))
    assert tried.started == bool(made)
    assert tried.done == (sum(event["type"] in TERMINAL for event in made) == 1)


@pytest.mark.parametrize("event", [TextDelta(""), ReasoningDelta("")])
def test_an_empty_delta_is_nothing(event: GenerationEvent) -> None:
    """Empty text opens no item and closes none."""
    builder = new_builder()
    builder.start()
    assert builder.feed(event) == []
    builder.feed(CallStarted("get_weather"))
    before = state_of(builder)
    assert builder.feed(event) == []
    assert state_of(builder) == before


# --- The life of a response --------------------------------------------------------------------------------------


def test_a_message() -> None:
    """The whole sequence of a plain answer, in order."""
    made = build([TextDelta("Hel"), TextDelta("lo"), FINISHED])
    assert types(made) == [
        "created",
        "in_progress",
        *MESSAGE,
        "output_text.delta",
        *MESSAGE_DONE,
        "completed",
    ]
    (item,) = items(made)
    assert item["status"] == "completed"
    assert item["content"] == [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]
    read_events(read(made))


def test_a_thought_two_calls_and_a_text() -> None:
    """Each item is closed when the next one opens or its call is complete, with the index of its place."""
    weather = '{"city": "Paris"}'
    made = build(
        [
            ReasoningDelta("Hm."),
            *call("get_weather", '{"city": ', '"Paris"}'),
            *call(FS_READ, "{}"),
            TextDelta("Done."),
            FINISHED,
        ]
    )
    delta = "function_call_arguments.delta"
    assert types(made) == [
        *("created", "in_progress"),
        *(*THOUGHT, *THOUGHT_DONE),
        *(*CALL, delta, delta, *CALL_DONE),
        *(*CALL, delta, *CALL_DONE),
        *(*MESSAGE, *MESSAGE_DONE),
        "completed",
    ]
    thought, first, second, message = items(made)
    assert thought["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert thought["summary"] == []
    assert (first["name"], first["arguments"]) == ("get_weather", weather)
    assert (second["name"], second["arguments"]) == ("fs.read", "{}")
    assert message["content"][0]["text"] == "Done."
    assert [event["output_index"] for event in made if "output_index" in event] == sorted(
        event["output_index"] for event in made if "output_index" in event
    )
    read_events(read(made))


def test_a_thought_with_a_summary() -> None:
    """Where a summary is asked for, the beginning of the thought stands in for it, once the thought is whole."""
    words = "thinking " * 200
    for text, short in (("Hm.", "Hm."), (words, words[:499].rsplit(maxsplit=1)[0] + " …")):
        made = build([ReasoningDelta(text), TextDelta("Yes."), FINISHED], reasoning={"summary": "auto"})
        assert types(made)[5:11] == [
            *("reasoning_text.done", "content_part.done"),
            *("reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done"),
            "reasoning_summary_part.done",
        ]
        assert items(made)[0]["summary"] == [{"type": "summary_text", "text": short}]
        assert items(made)[0]["content"] == [{"type": "reasoning_text", "text": text}]
        read_events(read(made))


@pytest.mark.parametrize("reasoning", [None, {}, {"effort": "high"}, {"summary": "none"}, {"summary": None}])
def test_a_thought_without_a_summary(reasoning: Any) -> None:
    """Nobody asked for one; the list of them is there, and empty."""
    made = build([ReasoningDelta("Hm."), FINISHED], reasoning=reasoning)
    assert items(made)[0]["summary"] == []
    assert not any("summary" in event["type"] for event in made)


def test_a_thought_that_is_sealed() -> None:
    """Where it is asked for, a thought carries a blob that gives it back, however it was cut; else there is none."""
    include = ["reasoning.encrypted_content"]
    made = build([ReasoningDelta("Hm, "), ReasoningDelta("well."), FINISHED], include=include)
    assert unseal(items(made)[0]["encrypted_content"]) == "Hm, well."
    assert terminal(made)["output"][0] == items(made)[0]
    read_events(read(made))
    assert "encrypted_content" not in items(build([ReasoningDelta("Hm."), FINISHED]))[0]


def test_a_custom_call() -> None:
    """Its input is streamed raw while the JSON arrives, and no event of a function call is sent for it."""
    made = build([*call("apply_patch", '{"input": "*** Begin', " Patch\\n", '*** End Patch"}'), FINISHED])
    delta = "custom_tool_call_input.delta"
    assert types(made)[2:-1] == [
        *("output_item.added", delta, delta, delta),
        *("custom_tool_call_input.done", "output_item.done"),
    ]
    assert [event["delta"] for event in made if "delta" in event] == ["*** Begin", " Patch\n", "*** End Patch"]
    assert made[2]["item"]["input"] == ""
    assert made[-3]["input"] == PATCH
    (item,) = items(made)
    assert item["type"] == "custom_tool_call"
    assert item["input"] == PATCH
    read_events(read(made))


def test_an_undeclared_name_is_a_function_call() -> None:
    """A call to a tool nobody declared is a plain function call under the name the model wrote."""
    (item,) = items(build([*call("made_up", '{"input": "a"}'), FINISHED]))
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "made_up", '{"input": "a"}')


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "get_weather"},
        {"type": "allowed_tools", "tools": [{"type": "function", "name": "get_weather"}]},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]},
    ],
)
@pytest.mark.parametrize("name", ["apply_patch", FS_READ, "made_up"])
def test_a_call_that_the_choice_rules_out_is_refused(choice: dict[str, Any], name: str) -> None:
    """By a name of its own at the end; what came before it stays, and nothing of the call or after it is shown."""
    builder = new_builder(tool_choice=choice)
    run(builder, [*call("get_weather", "{}"), TextDelta("And now")])
    after = [*call(name, "{}"), TextDelta("More."), *call("get_weather", "{}")]
    assert [made for event in after for made in builder.feed(event)] == []
    with pytest.raises(RequestError) as caught:
        builder.feed(FINISHED)
    assert (caught.value.code, caught.value.status) == ("tool_call_not_allowed", 500)
    assert name in caught.value.message
    made = builder.feed(Failed(caught.value.message, caught.value.code or ""))
    assert types(made) == ["error", "failed"]
    assert [item["type"] for item in builder.response["output"]] == ["function_call", "message"]
    assert builder.response["status"] == "failed"


@pytest.mark.parametrize("fragments", [[], [""], ["\n", " "]])
def test_a_call_without_arguments_has_an_empty_object(fragments: list[str]) -> None:
    """Clients parse the arguments of a complete call, so there is something to parse, in deltas as well."""
    made = build([*call("get_weather", *fragments), FINISHED])
    assert items(made)[0]["arguments"] == "{}"
    assert [event["delta"] for event in made if "delta" in event] == ["{}"]
    cut_off = build([CallStarted("get_weather"), *map(CallArguments, fragments), TRUNCATED])
    assert items(cut_off)[0]["arguments"] == ""


def test_an_item_is_closed_with_the_event_that_completes_it() -> None:
    """Clients start a tool at ``output_item.done``, so it is made at once and not when the next thing comes."""
    builder = new_builder()
    builder.start()
    builder.feed(CallStarted("get_weather"))
    builder.feed(CallArguments("{}"))
    assert types(builder.feed(CallFinished())) == CALL_DONE
    builder.feed(TextDelta("a"))
    assert types(builder.feed(CallStarted("get_weather"))) == [*MESSAGE_DONE, *CALL]


def test_ids() -> None:
    """Each item keeps its id from beginning to end; a call has a ``call_id`` besides, and the prefixes tell them apart."""
    made = build(
        [
            ReasoningDelta("Hm."),
            *call("get_weather", "{}"),
            *call("apply_patch", "{}"),
            TextDelta("Yes."),
            FINISHED,
        ]
    )
    prefixes = ["rs_", "fc_", "ctc_", "msg_"]
    for index, prefix in enumerate(prefixes):
        about = [event for event in made if event.get("output_index") == index]
        ids = {event.get("item_id") or event["item"]["id"] for event in about}
        assert len(ids) == 1
        assert ids.pop().startswith(prefix)
        call_ids = {event["item"].get("call_id") for event in about if "item" in event}
        assert len(call_ids) == 1
        call_id = call_ids.pop()
        assert (call_id is None) == (prefix in {"rs_", "msg_"})
        assert call_id is None or call_id.startswith("call_")
    assert {event["response"]["id"] for event in made if "response" in event} == {terminal(made)["id"]}
    assert terminal(made)["id"].startswith("resp_")


def test_the_response_in_its_stages() -> None:
    """In progress without output, usage or completion time; then completed with all of them."""
    made = build([TextDelta("a"), FINISHED])
    for event in made[:2]:
        response = event["response"]
        assert response["status"] == "in_progress"
        assert (response["output"], response["usage"], response["completed_at"]) == ([], None, None)
        assert response["created_at"] == CREATED_AT
    response = terminal(made)
    assert (response["status"], response["created_at"], response["completed_at"]) == (
        "completed",
        CREATED_AT,
        COMPLETED_AT,
    )
    assert response["usage"] == USAGE.wire()
    assert response["usage"]["total_tokens"] == 18


def test_an_empty_answer_has_an_empty_message() -> None:
    """A model that says nothing gives one message without text, since clients read the first item unasked."""
    made = build([FINISHED])
    (item,) = items(made)
    assert item["content"][0]["text"] == ""
    assert terminal(made)["output"] == [item]
    read_events(read(made))


def test_keepalive_takes_a_number_and_nothing_else() -> None:
    """A keepalive is numbered like every event and leaves the items alone."""
    builder = new_builder()
    made = [*builder.start(), *builder.keepalive(), *builder.feed(TextDelta("a")), *builder.keepalive()]
    made += builder.feed(TextDelta("b"))
    made += builder.feed(FINISHED)
    events = read(made)
    assert [event.type for event in events].count("keepalive") == 2
    without = build([TextDelta("a"), TextDelta("b"), FINISHED])
    assert terminal(made) == terminal(without)
    read_events(events)


# --- Cut off, and failed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "field", "value"),
    [
        ([TextDelta("Hel")], "content", [{"type": "output_text", "text": "Hel", "annotations": [], "logprobs": []}]),
        ([ReasoningDelta("Hm")], "content", [{"type": "reasoning_text", "text": "Hm"}]),
        ([CallStarted("get_weather"), CallArguments('{"ci')], "arguments", '{"ci'),
        ([CallStarted("get_weather")], "arguments", ""),
        ([CallStarted("apply_patch"), CallArguments('{"input": "*** Be')], "input", "*** Be"),
        ([CallStarted("apply_patch"), CallArguments('{"inp')], "input", '{"inp'),
        ([CallStarted("apply_patch"), CallArguments("*** Be")], "input", "*** Be"),
        ([CallStarted("apply_patch")], "input", ""),
    ],
)
def test_what_was_open_at_the_end_is_incomplete(events: list[GenerationEvent], field: str, value: object) -> None:
    """The item the budget ran out in holds exactly what came of it; those before are done."""
    made = build([*call("get_weather", "{}"), *events, TRUNCATED])
    first, last = items(made)
    assert first["status"] == "completed"
    assert last["status"] == "incomplete"
    assert last[field] == value
    assert terminal(made)["output"] == [first, last]
    read_events(read(made))


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([TextDelta("Hel")], ["message"]),
        ([ReasoningDelta("Hm")], ["reasoning"]),
        ([CallStarted("get_weather"), CallArguments('{"ci')], []),
        ([CallStarted("apply_patch"), CallArguments('{"input": "*** Be')], []),
    ],
)
def test_what_broke_off_is_never_done(events: list[GenerationEvent], kept: list[str]) -> None:
    """Clients run a call that is done and replay a message that is; what was said and thought is in the response."""
    made = build([*call("get_weather", "{}"), *events, Failed("The engine broke.", "server_error")])
    (done,) = items(made)
    first, *rest = terminal(made)["output"]
    assert first == done
    assert [(item["type"], item["status"]) for item in rest] == [(item_type, "incomplete") for item_type in kept]
    assert [event["type"] for event in made[-2:]] == ["error", "response.failed"]
    read_events(read(made))


def test_a_truncated_response_is_incomplete() -> None:
    """``response.incomplete`` takes the place of ``response.completed``; the reason and the usage are in it."""
    made = build([TextDelta("Hel"), TRUNCATED])
    response = terminal(made)
    assert made[-1]["type"] == "response.incomplete"
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (response["error"], response["completed_at"]) == (None, None)
    assert response["usage"] == USAGE.wire()


def test_a_budget_that_ran_out_after_a_whole_call_spoils_nothing() -> None:
    """Clients give up on an incomplete response, and a call that is complete can be made."""
    made = build([*call("get_weather", "{}"), TRUNCATED])
    response = terminal(made)
    assert [item["status"] for item in response["output"]] == ["completed"]
    assert (response["status"], response["completed_at"]) == ("completed", COMPLETED_AT)
    assert response["incomplete_details"] is None


def test_a_budget_that_ran_out_before_anything_came() -> None:
    """An incomplete response has an item as well, which is incomplete too."""
    made = build([TRUNCATED])
    assert terminal(made)["status"] == "incomplete"
    assert [item["status"] for item in terminal(made)["output"]] == ["incomplete"]
    read_events(read(made))


def test_a_failed_response_says_why() -> None:
    """``response.failed`` is the terminal event, with the error and what had come by then; ``error`` announces it."""
    made = build([TextDelta("Hel"), Failed("Too long.", "context_length_exceeded")])
    response = terminal(made)
    assert types(made)[-3:] == ["output_text.delta", "error", "failed"]
    assert (made[-2]["code"], made[-2]["message"]) == ("context_length_exceeded", "Too long.")
    assert made[-2]["error"]["code"] == "context_length_exceeded"
    assert response["status"] == "failed"
    assert response["error"] == {"code": "context_length_exceeded", "message": "Too long."}
    assert (response["incomplete_details"], response["completed_at"], response["usage"]) == (None, None, None)
    assert response["output"][0]["content"][0]["text"] == "Hel"


@pytest.mark.parametrize(
    "arguments", ['{"input": "a", "b": "c"}', '{"input": "a"', '{"input": "a\nb"}', '{"input": "a\\x"}']
)
def test_a_payload_that_turns_out_ambiguous_is_given_whole(arguments: str, caplog: pytest.LogCaptureFixture) -> None:
    """What was streamed cannot be taken back; the done event and the item have what the model wrote, and it is logged."""
    made = build([*call("apply_patch", *arguments), FINISHED])
    assert items(made)[0]["input"] == arguments
    assert made[-3]["input"] == arguments
    assert terminal(made)["output"] == items(made)
    assert "apply_patch" in caplog.text


# --- The code of a tool kind, which may be anybody's ---------------------------------------------------------------


class _Breaking(VerbatimDecoder):
    """A decoder that raises where it is told to."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def feed(self, fragment: str) -> str:
        if self._where == "feed":
            raise LookupError(self._where)
        return super().feed(fragment)

    def finish(self) -> str:
        if self._where == "finish":
            raise LookupError(self._where)
        return super().finish()


def shell_kind(where: str = "nowhere") -> OutputItemKind:
    """A kind whose payload is no text, and whose code raises at one place."""

    def build_payload(text: str) -> object:
        if where == "build":
            raise LookupError(where)
        return json.loads(text)

    def new_decoder() -> VerbatimDecoder:
        if where == "decoder":
            raise LookupError(where)
        return _Breaking(where)

    return OutputItemKind(type="shell_call", id_prefix="sh", payload="action", decoder=new_decoder, build=build_payload)


def shell_builder(where: str = "nowhere") -> ResponseBuilder:
    kind = shell_kind(where)
    return new_builder(lambda call: kind if call.name == "get_weather" and call.function else FUNCTION.output_item)


@pytest.mark.parametrize("where", ["decoder", "feed", "build", "finish"])
def test_a_kind_that_raises_does_not_keep_the_response_from_ending(where: str) -> None:
    """Whatever of a kind's code fails, the builder can still end the response: in order, with what came before."""
    builder = shell_builder(where)
    made = [*builder.start(), *builder.feed(TextDelta("a"))]
    failure = ""
    for event in call("get_weather", '{"a": 1}'):
        try:
            made += builder.feed(event)
        except LookupError as error:
            failure = str(error.args[0])
            break
    assert failure == where
    made += builder.feed(Failed("The server failed."))
    read(made)
    assert made[-1]["type"] == "response.failed"
    (message,) = terminal(made)["output"]
    assert message["type"] == "message"
    # The message was done if the call had begun by then.
    assert items(made) in ([], [message])


def test_a_payload_that_is_no_text_is_sent_once_it_is_whole() -> None:
    """Half of it could not be shown: the item is added and done at once, in the place where the call began."""
    builder = shell_builder()
    made = run(builder, [TextDelta("a"), *call("get_weather", '{"a": ', "1}"), TextDelta("b"), FINISHED])
    about = [event for event in made if event.get("output_index") == 1]
    assert types(about) == ["output_item.added", "output_item.done"]
    assert [event["item"]["action"] for event in about] == [{"a": 1}, {"a": 1}]
    assert [event["item"]["status"] for event in about] == ["in_progress", "completed"]
    read(made)


@pytest.mark.parametrize(
    ("events", "status", "arguments"),
    [
        (call("get_weather", '{"a": '), "completed", '{"a": '),
        ([CallStarted("get_weather"), CallArguments('{"a": ')], "incomplete", '{"a": '),
        ([CallStarted("get_weather")], "incomplete", ""),
    ],
)
def test_a_payload_that_cannot_be_built_is_a_function_call(
    events: Sequence[GenerationEvent], status: str, arguments: str
) -> None:
    """Nothing of what the model wrote is lost, and the client's error tells it what was wrong."""
    builder = shell_builder()
    end = FINISHED if status == "completed" else TRUNCATED
    made = run(builder, [*events, end])
    (item,) = items(made)
    assert (item["type"], item["name"], item["status"]) == ("function_call", "get_weather", status)
    assert item["arguments"] == arguments
    read_events(read(made))


def test_fields_of_a_kind_and_the_namespace_of_a_function() -> None:
    """A kind may add fields and leave out the name; a namespaced function keeps its namespace beside its own name."""
    kind = replace(FUNCTION.output_item, named=False, fields={"execution": "client"})
    made = run(new_builder(lambda _: kind), [*call("get_weather", "{}"), FINISHED])
    assert items(made)[0] == {
        "id": "fc_2",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "execution": "client",
        "arguments": "{}",
    }


# --- Arbitrary answers ---------------------------------------------------------------------------------------------

ends = st.sampled_from([FINISHED, TRUNCATED, Failed("The engine broke.")])


@given(st.data(), answers, ends)
def test_every_answer_is_a_stream_that_strict_clients_accept(
    data: st.DataObject, answer: list[tuple[str, Any]], end: GenerationEvent
) -> None:
    """Any legal sequence: framing, numbers, life of items, one terminal event, openai's types and its accumulator."""
    made = build([*data.draw(events_of(answer)), end])
    events = read(made)
    read_events(events)
    assert sum(event["type"] in TERMINAL for event in made) == 1
    output = terminal(made)["output"]
    done = items(made)
    assert output[: len(done)] == done
    assert [item["status"] for item in output[len(done) :]] in ([], ["incomplete"])
    assert len(output) == len(done) or terminal(made)["status"] == "failed"
    statuses = [item["status"] for item in output]
    assert set(statuses[:-1]) <= {"completed"}
    assert "incomplete" not in statuses or terminal(made)["status"] != "completed"


@given(st.data(), answers, ends)
def test_cuts_do_not_matter(data: st.DataObject, answer: list[tuple[str, Any]], end: GenerationEvent) -> None:
    """However the same answer is cut, the response object is the same, ids and all, and so is every event but deltas."""
    one, other = (build([*data.draw(events_of(answer)), end]) for _ in range(2))
    if end is FINISHED:  # else it shows whether the end of the last call was said
        assert terminal(one) == terminal(other)

    def landmarks(made: list[Wire]) -> list[Wire]:
        return [
            {key: value for key, value in event.items() if key != "sequence_number"}
            for event in made
            if not event["type"].endswith(".delta")
        ]

    if end is FINISHED:
        assert landmarks(one) == landmarks(other)


@given(st.data(), answers)
def test_the_output_is_the_answer(data: st.DataObject, answer: list[tuple[str, Any]]) -> None:
    """Items hold what the model emitted, in order, adjacent text joined, nothing added and nothing lost."""
    output = terminal(build([*data.draw(events_of(answer)), FINISHED]))["output"]
    expected: list[tuple[str, Any]] = []
    for kind, value in answer:
        if kind != "call" and expected and expected[-1][0] == kind:
            expected[-1] = (kind, expected[-1][1] + value)
        elif kind == "call" and value[0] == "apply_patch":
            expected.append((kind, unwrap_single_string(value[1])))
        elif kind == "call":
            expected.append((kind, value[1] if value[1].strip() else "{}"))
        else:
            expected.append((kind, value))
    kinds = {"reasoning": "thought", "message": "text", "function_call": "call", "custom_tool_call": "call"}
    got = [
        (
            kinds[item["type"]],
            item["content"][0]["text"] if "content" in item else item.get("arguments", item.get("input")),
        )
        for item in output
    ]
    assert got == (expected or [("text", "")])


@pytest.mark.parametrize("event", [TextDelta("word "), ReasoningDelta("word "), CallArguments("word ")])
@pytest.mark.parametrize("tool", ["get_weather", "apply_patch"])
def test_work_per_token_does_not_grow(event: GenerationEvent, tool: str) -> None:
    """A token late in a long answer costs what an early one costs, and no long string is copied for it."""
    builder = new_builder()
    builder.start()
    builder.feed(CallStarted(tool))
    builder.feed(CallArguments('{"input": "'))
    early = max(lines_executed(lambda: builder.feed(event)) for _ in range(20))
    for _ in range(5000):
        builder.feed(event)
    late = max(lines_executed(lambda: builder.feed(event)) for _ in range(20))
    assert late <= early
    assert longest_string(builder) < 1000


# --- What is said about a response besides its output ----------------------------------------------------------------


def test_openai_types_take_the_response() -> None:
    """The object of a completed response passes openai's own model, field by field."""
    made = build(
        [ReasoningDelta("Hm."), *call("get_weather", "{}"), *call("apply_patch", "{}"), TextDelta("a"), FINISHED]
    )
    typed = read_response(terminal(made))
    assert [item.type for item in typed.output] == ["reasoning", "function_call", "custom_tool_call", "message"]
    assert typed.output_text == "a"


def test_usage_adds_up() -> None:
    """The total is the sum; details are there with zeros where nothing is known."""
    response = terminal(build([TextDelta("a"), Finished(Usage(input_tokens=3, output_tokens=4))]))
    assert response["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 7,
    }
