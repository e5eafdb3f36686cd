"""The stream builder: generation events in, stream events out.

A sans-IO state machine. It reads no clock, makes no ids and writes nowhere: all of that is passed in, so that every
behaviour is a function of what was fed. It alone owns sequence numbers, output indexes and item ids.

::

    NEW ──start──▶ IDLE ◀────────────────────────────┐
                    │  ReasoningDelta ▶ REASONING ───┤  any event that does not continue
                    │  TextDelta ─────▶ MESSAGE ─────┤  the open item closes it first
                    │  CallStarted ───▶ CALL ────────┘  (CallFinished closes a call)
                    └─ Finished, Failed ▶ DONE

At most one item is open. It is closed, and its ``output_item.done`` sent, as soon as it is known to be complete:
clients start tools then. An event that is not allowed in the current state raises :class:`IllegalStep` and changes
nothing. After a call that ``tool_choice`` rules out nothing is made any more, and :class:`RequestError` is raised at
the end of the answer: a host that is left in the middle of one counts it as cancelled.

A streaming answer feeds events as they come; a non-streaming one feeds the whole answer at once and reads
:attr:`ResponseBuilder.response` in the end. So the two cannot disagree.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from responses_plugin.generation.events import (
    CallArguments,
    CallFinished,
    CallStarted,
    Failed,
    Finished,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
)
from responses_plugin.generation.items import OutputItemKind
from responses_plugin.kinds.toolset import GeneratedCall, Toolset
from responses_plugin.protocol import events
from responses_plugin.protocol.host_errors import forbidden_call
from responses_plugin.protocol.request import ResponsesRequest
from responses_plugin.protocol.response import Wire, response_object
from responses_plugin.protocol.sealed import seal

logger = logging.getLogger(__name__)


#: Characters of a thought that stand in for its summary.
_SUMMARY_LENGTH = 500


class IllegalStep(RuntimeError):  # noqa: N818 - it names what was tried, not what broke
    """An event that the current state does not allow."""


class _State(enum.Enum):
    NEW = enum.auto()
    STREAMING = enum.auto()
    DONE = enum.auto()


class _OpenMessage:
    """An assistant message that is being written."""

    def __init__(self, id: str, index: int, _: ResponsesRequest) -> None:
        self.id = id
        self.index = index
        self._texts: list[str] = []

    def open(self) -> list[Wire]:
        return [
            events.item_added(self.index, self._item("in_progress", [])),
            events.part_added(self.id, self.index, _text_part("")),
        ]

    def grow(self, text: str) -> Wire:
        self._texts.append(text)
        return events.text_delta(self.id, self.index, text)

    def close(self, status: str) -> tuple[list[Wire], Wire]:
        text = "".join(self._texts)
        item = self._item(status, [_text_part(text)])
        return [
            events.text_done(self.id, self.index, text),
            events.part_done(self.id, self.index, _text_part(text)),
            events.item_done(self.index, item),
        ], item

    def _item(self, status: str, content: list[Wire]) -> Wire:
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}


def _text_part(text: str) -> Wire:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class _OpenReasoning:
    """A reasoning item that is being written; its raw text is its content.

    Some clients show only summaries: the beginning of the thought stands in for one. Some send back only
    ``encrypted_content``.
    """

    def __init__(self, id: str, index: int, request: ResponsesRequest) -> None:
        self.id = id
        self.index = index
        self._request = request
        self._texts: list[str] = []

    def open(self) -> list[Wire]:
        return [
            events.item_added(self.index, self._item("in_progress", [])),
            events.part_added(self.id, self.index, _reasoning_part("")),
        ]

    def grow(self, text: str) -> Wire:
        self._texts.append(text)
        return events.reasoning_delta(self.id, self.index, text)

    def close(self, status: str) -> tuple[list[Wire], Wire]:
        text = "".join(self._texts)
        item = self._item(status, [_reasoning_part(text)])
        closing = [
            events.reasoning_done(self.id, self.index, text),
            events.part_done(self.id, self.index, _reasoning_part(text)),
        ]
        if self._request.wants_summary:
            short = _beginning(text)
            item["summary"] = [{"type": "summary_text", "text": short}]
            closing += events.summary(self.id, self.index, short)
        if self._request.wants_sealed_reasoning:
            item["encrypted_content"] = seal(text)
        return [*closing, events.item_done(self.index, item)], item

    def _item(self, status: str, content: list[Wire]) -> Wire:
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content}


def _beginning(text: str) -> str:
    """The beginning of a thought, cut between words."""
    if len(text) <= _SUMMARY_LENGTH:
        return text
    return text[:_SUMMARY_LENGTH].rsplit(maxsplit=1)[0] + " …"


def _reasoning_part(text: str) -> Wire:
    return {"type": "reasoning_text", "text": text}


class _OpenCall:
    """A tool call whose arguments are arriving; its kind decides how it looks."""

    def __init__(
        self, id: str, index: int, call: GeneratedCall, kind: OutputItemKind, fallback: Callable[[], OutputItemKind]
    ) -> None:
        self.id = id
        self.index = index
        self._kind = kind
        self._fallback = fallback
        self._decoder = kind.decoder()
        self._begun = False
        self._sent: list[str] = []
        self._call_id = call.call_id
        self._name = call.function.function.name if call.function else call.name
        namespace = call.function.function.namespace if call.function else None
        self._fields = {"namespace": namespace, **kind.fields} if namespace else dict(kind.fields)

    def open(self) -> list[Wire]:
        """An item whose payload is no text cannot be shown before its payload is whole."""
        return [events.item_added(self.index, self._item("in_progress", ""))] if self._kind.delta_event else []

    def grow(self, fragment: str) -> list[Wire]:
        self._begun = self._begun or bool(fragment.strip())
        return self._delta(self._decoder.feed(fragment))

    def close(self, status: str) -> tuple[list[Wire], Wire]:
        sent = "".join(self._sent)
        # What was cut off is not malformed: it ends where it was cut.
        cut_off = status == "incomplete" and (sent or not self._begun)
        payload = sent if cut_off else self._decoder.finish()
        closing = [] if self._kind.delta_event else self._open_late(payload)
        if payload.startswith(sent):
            closing += self._delta(payload[len(sent) :])
        else:
            logger.warning(
                "the input of %s turned out to be ambiguous; it is sent whole, as it was generated", self._name
            )
        if self._kind.done_event:
            closing.append(
                events.payload_done(self._kind.done_event, self.id, self.index, self._kind.payload, payload, self._name)
            )
        item = self._item(status, payload)
        return [*closing, events.item_done(self.index, item)], item

    def _open_late(self, payload: str) -> list[Wire]:
        try:
            self._kind.build(payload)
        except ValueError as error:
            logger.warning("a call of %s is passed on as a function call: %s", self._name, error)
            self._kind = self._fallback()
            self._fields = {}
            return self.open()
        return [events.item_added(self.index, self._item("in_progress", payload))]

    def _delta(self, text: str) -> list[Wire]:
        if not text or self._kind.delta_event is None:
            return []
        self._sent.append(text)
        return [events.payload_delta(self._kind.delta_event, self.id, self.index, text)]

    def _item(self, status: str, payload: str) -> Wire:
        item: Wire = {"id": self.id, "type": self._kind.type, "status": status, "call_id": self._call_id}
        if self._kind.named:
            item["name"] = self._name
        return {**item, **self._fields, self._kind.payload: self._kind.build(payload)}


class ResponseBuilder:
    """Builds one response.

    ``new_id(prefix)`` makes an id, ``now()`` gives whole seconds since 1970, ``choose_item`` the wire form of a
    call. Stream events are wire objects, numbered from 0 without a gap.
    """

    def __init__(
        self,
        request: ResponsesRequest,
        toolset: Toolset,
        *,
        new_id: Callable[[str], str],
        now: Callable[[], int],
        choose_item: Callable[[GeneratedCall], OutputItemKind],
    ) -> None:
        self._request = request
        self._toolset = toolset
        self._choice = toolset.choose(request.tool_choice)
        #: The tool that the model called against the choice.
        self._forbidden: str | None = None
        self._new_id = new_id
        self._now = now
        self._choose_item = choose_item
        self._state = _State.NEW
        self._next_number = 0
        self._output: list[Wire] = []
        self._open: _OpenMessage | _OpenReasoning | _OpenCall | None = None
        self._fixed: dict[str, Any] = {"id": new_id("resp"), "created_at": now()}
        #: The response as it stands: in progress until the end, then what the terminal event carried.
        self.response: Wire = response_object(request, **self._fixed, status="in_progress")

    @property
    def started(self) -> bool:
        """Whether ``response.created`` has been made."""
        return self._state is not _State.NEW

    @property
    def done(self) -> bool:
        """Whether the terminal event has been made."""
        return self._state is _State.DONE

    def start(self) -> list[Wire]:
        """``response.created`` and ``response.in_progress``."""
        self._require(_State.NEW, "start")
        self._state = _State.STREAMING
        return self._numbered(
            [events.lifecycle("created", self.response), events.lifecycle("in_progress", self.response)]
        )

    def keepalive(self) -> list[Wire]:
        """A sign of life while nothing else comes."""
        self._require(_State.STREAMING, "keepalive")
        return self._numbered([events.keepalive()])

    def feed(self, event: GenerationEvent) -> list[Wire]:
        """Take one generation event; returns the stream events it gives rise to."""
        self._require(_State.STREAMING, type(event).__name__)
        if self._forbidden is not None and not isinstance(event, Failed):
            if isinstance(event, Finished):
                raise forbidden_call(self._forbidden)
            return []
        if isinstance(event, TextDelta):
            return self._grow_text(event, _OpenMessage, "msg")
        if isinstance(event, ReasoningDelta):
            return self._grow_text(event, _OpenReasoning, "rs")
        if isinstance(event, CallStarted):
            return self._start_call(event)
        if isinstance(event, CallArguments):
            return self._numbered(self._open_call(event).grow(event.fragment))
        if isinstance(event, CallFinished):
            self._open_call(event)
            return self._numbered(self._close("completed"))
        if isinstance(event, Finished):
            return self._finish(event)
        return self._fail(event)

    def _grow_text(
        self, event: TextDelta | ReasoningDelta, kind: type[_OpenMessage | _OpenReasoning], prefix: str
    ) -> list[Wire]:
        if not event.text:
            return []
        item = self._open
        made: list[Wire] = []
        if not isinstance(item, kind):
            made = self._close("completed")
            self._open = item = kind(self._new_id(prefix), len(self._output), self._request)
            made += item.open()
        made.append(item.grow(event.text))
        return self._numbered(made)

    def _start_call(self, event: CallStarted) -> list[Wire]:
        function = self._toolset.find_shown(event.name)
        if not self._choice.permits(function):
            self._forbidden = event.name
            return []
        call = GeneratedCall(self._new_id("call"), event.name, function)
        kind = self._choose_item(call)
        index = len(self._output) + (self._open is not None)
        item = _OpenCall(
            self._new_id(kind.id_prefix), index, call, kind, lambda: self._choose_item(replace(call, function=None))
        )
        opening = item.open()  # The code of the kind runs before anything changes.
        made = self._close("completed")
        self._open = item
        return self._numbered(made + opening)

    def _close(self, status: str) -> list[Wire]:
        """Close the open item, if there is one."""
        if self._open is None:
            return []
        made, item = self._open.close(status)
        self._output.append(item)
        self._open = None
        return made

    def _finish(self, event: Finished) -> list[Wire]:
        # A call that was complete before the budget ran out is an answer that can be acted on.
        truncated = event.truncated and (self._open is not None or not self._output)
        status = "incomplete" if truncated else "completed"
        made = self._close(status)
        if not self._output:
            # Clients read the text of the first item without asking whether there is one.
            self._open = message = _OpenMessage(self._new_id("msg"), 0, self._request)
            made = message.open() + self._close(status)
        return self._end(
            made,
            status,
            usage=event.usage,
            completed_at=None if truncated else self._now(),
            incomplete_details={"reason": "max_output_tokens"} if truncated else None,
        )

    def _fail(self, event: Failed) -> list[Wire]:
        # What broke off is never done, whatever its status would say: clients run a call that is done, and put a
        # message that is done into the prompt of their next try. What was said and thought stays in the response.
        if self._open is not None and not isinstance(self._open, _OpenCall):
            _, item = self._open.close("incomplete")
            self._output.append(item)
        self._open = None
        made = [events.error(event.code, event.message)]
        return self._end(made, "failed", error={"code": event.code, "message": event.message})

    def _end(self, made: list[Wire], status: str, **outcome: Any) -> list[Wire]:
        self._state = _State.DONE
        self.response = response_object(self._request, **self._fixed, status=status, output=self._output, **outcome)
        return self._numbered([*made, events.lifecycle(status, self.response)])

    def _numbered(self, made: list[Wire]) -> list[Wire]:
        for event in made:
            event["sequence_number"] = self._next_number
            self._next_number += 1
        return made

    def _require(self, state: _State, step: str) -> None:
        if self._state is not state:
            raise IllegalStep(f"{step} is not allowed in state {self._state.name}")

    def _open_call(self, event: CallArguments | CallFinished) -> _OpenCall:
        if not isinstance(self._open, _OpenCall):
            raise IllegalStep(f"{type(event).__name__} without a call that is open")
        return self._open
