"""Long base64 payloads, taken out of a JSON text before it is parsed and put back afterwards.

The parser holds the interpreter lock from the first byte to the last, so with a hundred images in a body the whole
server would stand still, even though a thread does the work. Copying payloads is nearly all there is to it: taken out
beforehand, each of them takes a fraction of a millisecond, and others get their turn in between.
"""

from __future__ import annotations

import secrets
from typing import Any

_MARK = b";base64,"
#: Shorter payloads than this are left to the parser.
_LONG = 64 * 1024


def take_out(text: bytes | bytearray) -> tuple[bytes | bytearray, dict[str, str]]:
    """``text`` with a stand-in for each string that holds a long payload, and the strings by their stand-ins.

    Only strings that mean what they spell are taken; whatever else follows a mark is left to the parser, invalid JSON
    among it.
    """
    view = memoryview(text)
    # Random, so that no client can have sent it.
    prefix = secrets.token_hex(16)
    kept: list[bytes | memoryview] = []
    strings: dict[str, str] = {}
    done, mark = 0, text.find(_MARK)
    while mark >= 0 and (end := text.find(b'"', mark)) >= 0:
        start = text.rfind(b'"', done, mark) + 1
        if end - mark > _LONG and start and _is_plain(text, start, end):
            stand_in = f"{prefix}{len(strings)}"
            strings[stand_in] = str(view[start:end], "ascii")
            kept += [view[done:start], stand_in.encode()]
            done = end
        mark = text.find(_MARK, end)
    return (b"".join([*kept, view[done:]]), strings) if strings else (text, strings)


def put_back(value: Any, strings: dict[str, str]) -> Any:
    """The parsed ``value`` with the strings in their places."""
    if isinstance(value, str):
        return strings.get(value, value)
    if isinstance(value, list):
        return [put_back(element, strings) for element in value]
    if isinstance(value, dict):
        return {strings.get(key, key): put_back(element, strings) for key, element in value.items()}
    return value


def _is_plain(text: bytes | bytearray, start: int, end: int) -> bool:
    """Whether this is a string from its opening quote on, ASCII without escapes and line ends."""
    return (
        text[start - 2 : start - 1] != b"\\"
        and text.find(b"\\", start, end) < 0
        and text.find(b"\n", start, end) < 0
        and text[start:end].isascii()
    )
