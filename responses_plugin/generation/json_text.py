"""Reading JSON while it arrives, cut anywhere: where an object ends, and a string value inside it."""

from __future__ import annotations

import json
import re

#: What matters for finding where an object ends: inside a string, and outside of one.
_WITHIN_STRING = re.compile(r'["\\]')
_OUTSIDE_STRING = re.compile(r'["{}\[\]]')


class ObjectScanner:
    """Finds the end of a JSON object. Work is proportional to the text, however it is cut.

    Text that does not begin with a brace is not an object, and has no end that could be seen.
    """

    def __init__(self) -> None:
        #: None until the first character that is not white space.
        self._is_object: bool | None = None
        self._depth = 0
        self._in_string = False
        #: The next character is escaped.
        self._escaped = False
        self.complete = False

    @property
    def open(self) -> bool:
        """Whether an object has begun and has not closed."""
        return bool(self._is_object) and not self.complete

    def feed(self, fragment: str) -> str:
        """The part of ``fragment`` that belongs to the object: all of it, until the object has closed."""
        if self.complete:
            return ""
        if self._is_object is None and (begun := fragment.lstrip()):
            self._is_object = begun.startswith("{")
        if not self._is_object or not fragment:
            return fragment
        position = 1 if self._escaped else 0
        self._escaped = False
        while match := (_WITHIN_STRING if self._in_string else _OUTSIDE_STRING).search(fragment, position):
            position = match.end()
            char = match.group()
            if char == "\\":
                self._escaped = position == len(fragment)
                position += 1
            elif char == '"':
                self._in_string = not self._in_string
            else:
                self._depth += 1 if char in "{[" else -1
                if self._depth == 0:
                    self.complete = True
                    return fragment[:position]
        return fragment


def unwrap_single_string(arguments: str) -> str:
    """The free-form input inside generated arguments.

    A single string-valued property of the object is the input, whatever its name; an empty object, or nothing at
    all, is an empty input. Anything else (two properties, another type, broken JSON, bare text) is kept verbatim.
    """
    if not arguments.strip():
        return ""
    try:
        pairs = json.loads(arguments, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return arguments
    if not arguments.lstrip().startswith("{"):
        return arguments
    if not pairs:
        return ""
    if len(pairs) == 1 and isinstance(pairs[0][1], str):
        return _encodable(pairs[0][1])
    return arguments


def _encodable(text: str) -> str:
    """``text`` without halves of surrogate pairs: JSON can escape them, but nothing can encode them."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = r"[ \t\n\r]*"
_STRING = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
#: ``{"name": "``: all that stands before the first character of a string-valued first property.
_OPENING = re.compile(rf'{_SPACE}\{{{_SPACE}{_STRING}{_SPACE}:{_SPACE}"')
#: An opening that is longer is not waited for, or looking for it would take ever longer.
_LONGEST_OPENING = 1000
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
#: Whole characters and whole escapes of a JSON string. A high surrogate waits until it is known what follows it.
_WHOLE = re.compile(
    rf"""(?: [^"\\\x00-\x1f]
           | \\["\\/bfnrt]
           | \\u(?![dD][89abAB])[0-9a-fA-F]{{4}}
           | {_HIGH} (?: {_LOW} | (?= [^\\] | \\[^u] | \\u[^dD] | \\u[dD][^c-fC-F] ) )
         )*""",
    re.VERBOSE,
)
#: So much may stand undecoded before the rest of it comes: an escaped pair but for its last digit.
_LONGEST_ESCAPE = 11


class SingleStringDecoder:
    """Streams the value of the single string property of an arguments object while its JSON is still arriving.

    :meth:`finish` applies :func:`unwrap_single_string` to the whole text. What was streamed is a prefix of that for
    every well-formed payload; a payload that turns out to be ambiguous after its first property is given whole. Work
    is proportional to the text, however it is cut.
    """

    def __init__(self) -> None:
        self._fragments: list[str] = []
        #: What is not decoded yet: the beginning of the opening, or of an escape.
        self._rest = ""
        self._opened = False
        #: Nothing more can be streamed.
        self._closed = False

    def feed(self, fragment: str) -> str:
        self._fragments.append(fragment)
        if self._closed:
            return ""
        self._rest += fragment
        if not self._opened:
            opening = _OPENING.match(self._rest)
            if opening is None:
                self._closed = len(self._rest) > _LONGEST_OPENING
                return ""
            self._opened = True
            self._rest = self._rest[opening.end() :]
        whole = _WHOLE.match(self._rest)
        assert whole is not None  # the pattern matches the empty string
        self._rest = self._rest[whole.end() :]
        # A quote ends the value. Whatever else cannot be decoded means broken JSON, which finish() keeps verbatim.
        self._closed = bool(self._rest) and not (self._rest[0] == "\\" and len(self._rest) <= _LONGEST_ESCAPE)
        return _encodable(json.loads(f'"{whole.group()}"')) if whole.group() else ""

    def finish(self) -> str:
        return unwrap_single_string(self.arguments)

    @property
    def arguments(self) -> str:
        """All of the text, undecoded."""
        return "".join(self._fragments)
