"""The kinds of files that people can attach: recognised by their bytes, with their labels."""

import base64
import binascii
import re
from typing import Final, Literal

Kind = Literal[
    "picture", "pdf", "package", "text", "encrypted", "old_office", "rtf", "other_encoding", "other"
]

PDF: Final = "application/pdf"
TEXT: Final = "text/plain"
_OPEN_XML: Final = "application/vnd.openxmlformats-officedocument."
DOCX: Final = f"{_OPEN_XML}wordprocessingml.document"
XLSX: Final = f"{_OPEN_XML}spreadsheetml.sheet"
PPTX: Final = f"{_OPEN_XML}presentationml.presentation"
# No provider of ours reads these: the model receives their text.
OFFICE: Final = (DOCX, XLSX, PPTX)
LABELS: Final = {
    PDF: "PDF",
    DOCX: "Word",
    XLSX: "Excel",
    PPTX: "PowerPoint",
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WebP",
}

HEAD_BYTES: Final = 64
_HEAD_CHARACTERS: Final = HEAD_BYTES // 3 * 4
SAMPLE_BYTES: Final = 4096
# Container formats share their first bytes and differ a little later.
PICTURES: Final = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF.{4}WEBP", re.DOTALL)),
)
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff")
_CONTROLS: Final = bytes({*range(32), 127} - {*b"\t\n\v\f\r\x1b"})
_CONTROL: Final = re.compile(f"[{re.escape(_CONTROLS.decode())}]")
# No western language has such words. In Cyrillic, Greek and Chinese encodings they are the rule,
# and Windows-1252 would turn them into wrong letters.
_OTHER_LETTERS: Final = re.compile(rb"[\xc0-\xff]{3}")
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_RTF: Final = b"{\\rtf"
_COMPOUND: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The part of a compound file that has an office file with a password.
_ENCRYPTED_PART: Final = "EncryptedPackage".encode("utf-16-le")


def detect_model_type(data: bytes) -> str:
    """Return the media type of a picture or a PDF that models take, or an empty string."""
    head = data[:HEAD_BYTES]
    if head.lstrip().startswith(b"%PDF-"):
        return PDF
    return next((name for name, begins in PICTURES if begins.match(head)), "")


def detect_encoded_type(base64_text: object) -> str:
    """Return the same for bytes in base64."""
    if not isinstance(base64_text, str):
        return ""
    try:
        return detect_model_type(base64.b64decode(base64_text[:_HEAD_CHARACTERS]))
    except (binascii.Error, ValueError):
        return ""


def detect_kind(data: bytes) -> Kind:
    """Return the kind. A package is a ZIP archive: only its reader finds out what is inside."""
    found = detect_model_type(data)
    if found:
        return "pdf" if found == PDF else "picture"
    if data.startswith(_ZIP):
        return "package"
    if data.startswith(_COMPOUND):
        return "encrypted" if _ENCRYPTED_PART in data else "old_office"
    if data.startswith(_RTF):
        return "rtf"
    if decode_text(data) is not None:
        return "text"
    return "other_encoding" if _looks_written(data[:SAMPLE_BYTES]) else "other"


def is_read_as_text(media_type: str) -> bool:
    """Return whether models receive the text of such a file and not its bytes."""
    return media_type.startswith("text/") or media_type in OFFICE


def decode_text(data: bytes) -> str | None:
    """Return the text of a file in UTF-8, in UTF-16 with a byte order mark, or in Windows-1252,
    which office programs still write; None if it is not text in any of them."""
    if data.startswith(_WIDE):
        text = _decode(data, "utf-16")
        return None if text is None or _CONTROL.search(text) else text
    if data.translate(None, _CONTROLS) != data:
        return None
    text = _decode(data, "utf-8-sig")
    if text is None and not _OTHER_LETTERS.search(data):
        text = _decode(data, "cp1252")
    return text


def _decode(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _looks_written(sample: bytes) -> bool:
    return sample.startswith(_WIDE) or sample.translate(None, _CONTROLS) == sample
