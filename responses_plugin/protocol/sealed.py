"""``encrypted_content`` of reasoning items: a thought that the client keeps for us and sends back.

Nothing is secret here: the client may read the thought in ``content`` as well. The blob is for clients that replay
only it. It is versioned, so that a later release can change its form, and a blob of another server is told apart.
"""

from __future__ import annotations

import base64
import binascii
import zlib

_PREFIX = "vmr1."
#: Bytes a blob may unpack to: no thought is longer, and a blob comes from outside.
_MAX_BYTES = 16 * 1024 * 1024


def seal(text: str) -> str:
    """The blob that holds ``text``."""
    return _PREFIX + base64.urlsafe_b64encode(zlib.compress(text.encode())).decode()


def unseal(blob: str) -> str | None:
    """The text of one of our own blobs; None for anything else."""
    if not blob.startswith(_PREFIX):
        return None
    try:
        packed = base64.urlsafe_b64decode(blob[len(_PREFIX) :])
        return zlib.decompressobj().decompress(packed, _MAX_BYTES).decode()
    except (binascii.Error, ValueError, zlib.error):
        return None
