"""Content parts → chat parts, one value a part type."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from responses_plugin.context import RequestContext
from responses_plugin.hookspecs import hookimpl
from responses_plugin.images import check_image_url, label_as_image
from responses_plugin.lowering.messages import ChatPart, text_part
from responses_plugin.lowering.part_kinds import ContentPartKind
from responses_plugin.protocol.errors import RequestError
from responses_plugin.protocol.parts import (
    ChatImage,
    ImagePart,
    ImageUrl,
    InputFile,
    InputImage,
    MediaPart,
    Part,
    RefusalPart,
    TextPart,
)
from responses_plugin.protocol.wire import missing, require_object, wrong_type

#: What a part that no kind knows becomes; ``lower_content`` keeps it as JSON text.
UNKNOWN = "unknown"


def _lower_text(part: TextPart) -> ChatPart:
    return text_part(part.text)


def _lower_refusal(part: RefusalPart) -> ChatPart:
    return text_part(part.refusal)


def _lower_image(part: ImagePart) -> ChatPart:
    image_url = part.image_url.wire() if isinstance(part.image_url, ImageUrl) else {}
    image_url["url"] = label_as_image(part.url or "")
    if isinstance(part, InputImage) and part.detail is not None:
        image_url["detail"] = part.detail
    return {"type": "image_url", "image_url": image_url}


def _lower_media(part: MediaPart) -> ChatPart:
    return part.wire()


def _check_image(part: ImagePart, path: str) -> None:
    if part.url is not None:
        check_image_url(part.url, f"{path}.image_url")
    elif isinstance(part, InputImage) and part.file_id is not None:
        raise RequestError(
            f"'{path}' refers to an uploaded file (file_id), and this server stores no files: "
            "send the image as 'image_url', a data: URL or an http(s) URL.",
            param=f"{path}.file_id",
            code="unsupported_parameter",
        )
    else:
        raise missing(f"{path}.image_url")


def _refuse_file(part: InputFile, path: str) -> None:
    raise RequestError(
        f"'{path}' is an input_file, which this server cannot read: send the text of the file as input_text, "
        "or its pages as input_image.",
        param=path,
        code="unsupported_content_type",
    )


def _unreachable(part: Part) -> ChatPart:  # pragma: no cover - input_file never passes its check
    raise AssertionError(part.type)


@hookimpl(trylast=True)
def responses_content_parts() -> Iterable[ContentPartKind]:
    """The parts of the Responses API and the chat-completions forms that existing clients send."""
    texts = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
    media = ("video_url", "video", "input_audio", "audio_url", "audio")
    return [
        *(ContentPartKind(type, TextPart, _lower_text) for type in texts),
        ContentPartKind("refusal", RefusalPart, _lower_refusal),
        ContentPartKind("input_image", InputImage, _lower_image, _check_image),
        ContentPartKind("image_url", ChatImage, _lower_image, _check_image),
        ContentPartKind("input_file", InputFile, _unreachable, _refuse_file),
        *(ContentPartKind(type, MediaPart, _lower_media) for type in media),
    ]


def parse_content(raw: Any, path: str, context: RequestContext) -> str | list[Part]:
    """A string, or an array of parts; parts of unknown type are kept as they are."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, dict):
        return [_parse_part(raw, path, context)]
    if not isinstance(raw, list):
        raise wrong_type(path, "a string or an array of parts", raw)
    return [_parse_part(part, f"{path}[{index}]", context) for index, part in enumerate(raw)]


def _parse_part(raw: Any, path: str, context: RequestContext) -> Part:
    if isinstance(raw, str):
        raw = {"type": "input_text", "text": raw}
    part_type = require_object(raw, path).get("type")
    kind = context.content_parts.get(part_type) if isinstance(part_type, str) else None
    if kind is None:
        return Part.parse(raw, path)
    part = kind.model.parse(raw, path)
    if kind.check is not None:
        kind.check(part, path)
    return part


def lower_part(part: Part, context: RequestContext) -> ChatPart:
    """One chat part; a part of unknown type becomes ``{"type": "unknown", "part": …}`` for the caller to place."""
    kind = context.content_parts.get(part.type)
    if kind is None:
        return {"type": UNKNOWN, "part": part.wire()}
    return kind.lower(part)


def lower_parts(content: str | list[Part], context: RequestContext) -> list[ChatPart]:
    """The chat parts of a message, unknown ones as JSON text in their place."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return [
        text_part(as_json(part["part"])) if part["type"] == UNKNOWN else part
        for part in (lower_part(part, context) for part in content)
    ]


def as_json(value: Any) -> str:
    """JSON for the model to read."""
    return json.dumps(value, ensure_ascii=False)
