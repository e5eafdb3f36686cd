"""One request and what came back, the same for every client."""

from __future__ import annotations

from dataclasses import dataclass

#: More than the longest end of a stream: the terminal event repeats the answer, its type stands at the beginning.
_TAIL_BYTES = 64
#: How the last bytes of a stream, and those of a whole answer, look.
_GOOD_ENDS = (b"data: [DONE]", b"}")


@dataclass(frozen=True)
class Request:
    """A ``POST`` of JSON."""

    path: str
    body: bytes


@dataclass
class Exchange:
    """What came back. Times are by the clock, from before the request was sent."""

    status: int = 0
    size: int = 0
    first_byte_seconds: float = 0.0
    seconds: float = 0.0
    tail: bytes = b""

    def take(self, data: bytes) -> None:
        """Count the next piece of the answer."""
        self.size += len(data)
        self.tail = (self.tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def require_success(self) -> None:
        """Raise ``RuntimeError`` if this is not a whole, good answer."""
        if self.status != 200 or not self.tail.rstrip().endswith(_GOOD_ENDS):
            raise RuntimeError(f"the answer is not a good one: {self.status}, …{self.tail!r}")
