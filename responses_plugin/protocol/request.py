"""The request body: one value that everything downstream reads."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from responses_plugin.protocol.wire import WireModel


class TextFormat(WireModel):
    """``text.format``: plain text, any JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextOptions(WireModel):
    format: TextFormat = TextFormat()
    verbosity: str | None = None


class ReasoningOptions(WireModel):
    """Effort and summary are free strings: clients send levels that no published list has."""

    effort: str | None = None
    summary: str | None = None


class ConversationReference(WireModel):
    id: str = Field(min_length=1)


class ResponsesRequest(WireModel):
    """A body of ``POST /v1/responses``.

    ``input`` is still raw here: items are parsed one by one through the hook that third parties can join. Fields
    that this model does not name are kept and, where the chat path of the host knows them, carried there.
    """

    model: str = Field(min_length=1)
    input: str | list[Any] = []
    instructions: str | None = None
    tools: list[Any] = []
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    stream: bool = False
    store: bool = True
    previous_response_id: str | None = None
    conversation: Annotated[str, Field(min_length=1)] | ConversationReference | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_output_tokens: int | None = Field(default=None, gt=0)
    max_tool_calls: int | None = None
    text: TextOptions = TextOptions()
    reasoning: ReasoningOptions | None = None
    metadata: dict[str, Any] = {}
    truncation: Literal["auto", "disabled"] = "disabled"
    background: bool = False
    include: list[str] = []
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation, whichever way it was given."""
        if isinstance(self.conversation, ConversationReference):
            return self.conversation.id
        return self.conversation

    @property
    def wants_sealed_reasoning(self) -> bool:
        """Whether reasoning items are to carry ``encrypted_content``."""
        return "reasoning.encrypted_content" in self.include

    @property
    def wants_summary(self) -> bool:
        """Whether reasoning items are to carry a summary, at whatever length."""
        return self.reasoning is not None and self.reasoning.summary not in (None, "none")

    @property
    def extra(self) -> dict[str, Any]:
        """Fields beyond the protocol, such as the host's own sampling options."""
        return self.model_extra or {}
