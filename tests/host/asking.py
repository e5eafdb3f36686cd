"""Questions to the tiny models as openai-python sends them, and the items that they are made of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests import tiny
from tests.images import ImageFormat, data_url
from tests.openai_oracle import read_events, read_response
from tests.sse import StreamReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import openai
    from openai.types.responses import Response, ResponseOutputItem

    from tests.sse import StreamEvent

Item = dict[str, Any]


@dataclass
class Asker:
    """Sends requests with openai-python, plain or streamed, and checks whatever comes back against its types."""

    client: openai.OpenAI
    stream: bool

    def ask(self, given: str | Sequence[Item], **options: Any) -> Response:
        """The response; a streamed one was checked event by event."""
        return self._ask_streaming(given, options)[1] if self.stream else self._ask_plainly(given, options)

    def events(self, given: str | Sequence[Item], **options: Any) -> list[StreamEvent]:
        """The events of a streamed request."""
        return self._ask_streaming(given, options)[0]

    def _ask_plainly(self, given: str | Sequence[Item], options: dict[str, Any]) -> Response:
        raw = self.client.responses.with_raw_response.create(**_body(given, options))
        return read_response(json.loads(raw.content))

    def _ask_streaming(
        self, given: str | Sequence[Item], options: dict[str, Any]
    ) -> tuple[list[StreamEvent], Response]:
        reader = StreamReader()
        with self.client.responses.with_streaming_response.create(stream=True, **_body(given, options)) as raw:
            for piece in raw.iter_bytes():
                reader.feed(piece)
        events = reader.close()
        return events, read_events(events)


def _body(given: str | Sequence[Item], options: dict[str, Any]) -> dict[str, Any]:
    return {"model": tiny.MODEL, "input": given, "temperature": 0, "max_output_tokens": 120, **options}


def user(*content: str | Item) -> Item:
    """A user turn of texts and other parts."""
    parts = [{"type": "input_text", "text": part} if isinstance(part, str) else part for part in content]
    return {"role": "user", "content": parts}


def image(colour: str, image_format: ImageFormat = "PNG", side: int = 64) -> Item:
    """An image part."""
    return {"type": "input_image", "image_url": data_url(colour, image_format, (side, side))}


def called(name: str, arguments: str = "{}", call_id: str = "call_1") -> Item:
    """A function call in the history."""
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(content: str | Sequence[Item], call_id: str = "call_1") -> Item:
    """What the tool of that call answered."""
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def text(content: str) -> Item:
    return {"type": "input_text", "text": content}


def replayed(items: Sequence[ResponseOutputItem]) -> list[Item]:
    """Output items as a client sends them back."""
    return [item.model_dump(mode="json") for item in items]


def input_tokens(response: Response) -> int:
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    return response.usage.input_tokens
