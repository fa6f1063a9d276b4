"""Pictures and sounds that may be shown: known by their first bytes, never by what a service says
of them. SVG is none of them: it is a document that can hold scripts."""

import base64
import binascii
import re
from typing import Final

MAX_BYTES: Final = 4 * 1024 * 1024
_HEAD_CHARACTERS: Final = 64
_WRITTEN: Final = frozenset({"application/json", "application/xml", "image/svg+xml"})

# The first bytes of each kind. A format whose container holds several kinds is told by its name in
# the container.
_SIGNATURES: Final = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF.{4}WEBP", re.DOTALL)),
    ("audio/wav", re.compile(rb"RIFF.{4}WAVE", re.DOTALL)),
    ("audio/ogg", re.compile(rb"OggS")),
    ("audio/flac", re.compile(rb"fLaC")),
    ("audio/mp4", re.compile(rb".{4}ftypM4A", re.DOTALL)),
    ("audio/mpeg", re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]")),
)


def media_type_of(data: bytes) -> str:
    """What the bytes are: one of the types above, or nothing."""
    return next((name for name, begins in _SIGNATURES if begins.match(data)), "")


def shown_type(base64_text: object) -> str:
    """The type of bytes in base64 that a page may show, or nothing."""
    if not isinstance(base64_text, str) or len(base64_text) > MAX_BYTES * 4 // 3 + 4:
        return ""
    return media_type_of(decoded(base64_text[:_HEAD_CHARACTERS]) or b"")


def decoded(base64_text: object) -> bytes | None:
    """The bytes; None for what is no base64, or holds more than is served."""
    if not isinstance(base64_text, str):
        return None
    try:
        data = base64.b64decode(base64_text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) <= MAX_BYTES else None


def words_in(data: bytes | None, media_type: str) -> str | None:
    """The words in bytes of a type that is written: text, and the source of pages and drawings."""
    kind = media_type.partition(";")[0].strip().lower()
    if data is None or not (kind.startswith("text/") or kind in _WRITTEN):
        return None
    try:
        words = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\x00" in words else words


def byte_count(base64_text: object) -> int:
    """How many bytes there are, without decoding them."""
    text = base64_text.rstrip("=") if isinstance(base64_text, str) else ""
    return len(text) * 3 // 4
