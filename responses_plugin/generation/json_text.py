"""Reading JSON while it arrives, cut anywhere: where an object ends, and a string value inside it."""

from __future__ import annotations

import json
import re

#: Everything that matters for finding where an object ends.
_STRUCTURE = re.compile(r'["\\{}\[\]]')


class ObjectScanner:
    """Says when a JSON object is complete. Work is proportional to the text, however it is cut."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped_at = -1
        self._position = 0
        self.complete = False

    def feed(self, fragment: str) -> bool:
        """True as soon as the outermost object or array has closed."""
        for match in _STRUCTURE.finditer(fragment):
            position = self._position + match.start()
            char = match.group()
            if position == self._escaped_at:
                continue
            if char == "\\":
                # Only the very next character is escaped.
                self._escaped_at = position + 1 if self._in_string else -1
            elif char == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if char in "{[" else -1
                if self._depth <= 0:
                    self.complete = True
        self._position += len(fragment)
        return self.complete


def unwrap_single_string(arguments: str) -> str:
    """The free-form input inside generated arguments.

    A single string-valued property of the object is the input, whatever its name; an empty object, or nothing at
    all, is an empty input. Anything else (two properties, another type, broken JSON, bare text) is kept verbatim.
    """
    if not arguments.strip():
        return ""
    try:
        pairs = json.loads(arguments, object_pairs_hook=list)
    except ValueError:
        return arguments
    if not arguments.lstrip().startswith("{"):
        return arguments
    if not pairs:
        return ""
    if len(pairs) == 1 and isinstance(pairs[0][1], str):
        text: str = pairs[0][1]
        return text
    return arguments


_STRING = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
#: ``{"name": "`` — all that stands before the first character of a string-valued first property.
_OPENING = re.compile(rf'\s*\{{\s*{_STRING}\s*:\s*"')
#: Whole characters and whole escapes of a JSON string. A high surrogate waits for its low half.
_WHOLE = re.compile(
    r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4})*"
)


class SingleStringDecoder:
    """Streams the value of the single string property of an arguments object while its JSON is still arriving.

    :meth:`finish` applies :func:`unwrap_single_string` to the whole text. What was streamed is a prefix of that for
    every well-formed payload; a payload that turns out to be ambiguous after its first property is given whole.
    """

    def __init__(self) -> None:
        self._text = ""
        #: Where the next undecoded character of the value stands; -1 while the opening has not been seen.
        self._position = -1
        self._closed = False

    def feed(self, fragment: str) -> str:
        self._text += fragment
        if self._closed:
            return ""
        if self._position < 0:
            opening = _OPENING.match(self._text)
            if opening is None:
                return ""
            self._position = opening.end()
        whole = _WHOLE.match(self._text, self._position)
        assert whole is not None  # the pattern matches the empty string
        self._position = whole.end()
        # A quote ends the value; a raw control character means broken JSON, which finish() keeps verbatim.
        following = self._text[self._position : self._position + 1]
        self._closed = bool(following) and following != "\\"
        decoded: str = json.loads(f'"{whole.group()}"') if whole.group() else ""
        return decoded

    def finish(self) -> str:
        return unwrap_single_string(self._text)
