"""Checks that a data: URL holds an image the host can open, before any model work, or decode, after it has failed.

http(s) URLs are not looked at here: fetching them, and refusing private addresses, is the host's business.
"""

from __future__ import annotations

import binascii
import io

from responses_plugin.protocol.errors import RequestError

#: Raster formats that Pillow opens and vision models are given. The label in the URL does not matter, the bytes do.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")

_TOO_LARGE = "it has too many pixels"
_SEND_INSTEAD = "send PNG, JPEG, WebP, GIF, BMP or TIFF as 'data:image/…;base64,…', or an http(s) URL"


def check_image_url(url: str, path: str, *, decode: bool = False) -> None:
    """Raise :class:`RequestError` naming ``path`` unless ``url`` can be an image. The payload is never echoed.

    Only ``decode`` tells for sure, and takes as long as the host's own decoding.
    """
    if url.startswith(("http://", "https://")):
        return
    if not url.startswith("data:"):
        scheme = url.split(":", 1)[0][:20] if ":" in url[:40] else "no scheme"
        raise _refused(path, f"it is neither a data: URL nor an http(s) URL ({scheme!r})")
    header, comma, payload = url.partition(",")
    if not comma or not header.endswith(";base64"):
        raise _refused(path, "its data: URL is not base64-encoded")
    if "-" in payload or "_" in payload:
        raise _refused(path, "its base64 uses the URL-safe alphabet")
    try:
        data = binascii.a2b_base64(payload)
    except (binascii.Error, ValueError):
        raise _refused(path, "its base64 cannot be decoded") from None
    if problem := _format_problem(data, decode=decode):
        raise _refused(path, problem)


def label_as_image(url: str) -> str:
    """The host tells an image from a file by the label of its data: URL, so one with another label gets a new one."""
    if url.startswith("data:") and not url.startswith("data:image/"):
        return "data:image/png;base64" + url[url.index(",") :]
    return url


def _format_problem(data: bytes, *, decode: bool) -> str | None:
    """Why the host could not open these bytes, or None. Reads the header only unless told to decode."""
    from PIL import Image, UnidentifiedImageError

    if not data:
        return "it is empty"
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            pixels = image.width * image.height
            if decode:
                image.load()
    except UnidentifiedImageError:
        return f"its format is not one of {', '.join(FORMATS)}"
    # Pillow warns of what it would still open, and filters may turn a warning into an error.
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return _TOO_LARGE
    except (OSError, SyntaxError, ValueError, EOFError):
        return "it is damaged"
    return _TOO_LARGE if pixels > (Image.MAX_IMAGE_PIXELS or pixels) else None


def _refused(path: str, problem: str) -> RequestError:
    return RequestError(
        f"The image at '{path}' cannot be used: {problem}; {_SEND_INSTEAD}.", param=path, code="invalid_image"
    )
