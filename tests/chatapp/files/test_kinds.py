"""A file is what its bytes are, whatever its name says."""

import pytest

from chatapp.files.kinds import Kind, decode_text, detect_kind, detect_model_type
from tests.peers.reading_room import PNG, SVG, WAV

from .office_files import locked_office
from .papers import pdf

FILES: dict[str, tuple[bytes, Kind, str]] = {
    "png": (PNG, "picture", "image/png"),
    "jpeg": (b"\xff\xd8\xff\xe0" + b"\x00" * 30, "picture", "image/jpeg"),
    "gif": (b"GIF89a" + b"\x00" * 30, "picture", "image/gif"),
    "webp": (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "picture", "image/webp"),
    "pdf": (pdf("x"), "pdf", "application/pdf"),
    "pdf after a line": (b"\r\n%PDF-1.4", "pdf", "application/pdf"),
    "text": ("Grüße\tan\r\nalle \x1b[1m".encode(), "text", ""),
    "text with a mark": (b"\xef\xbb\xbfwords", "text", ""),
    "drawing": (SVG, "text", ""),
    "a word of PDF": (b"A file that begins with %PDF-", "text", ""),
    "western": ("Größe;Preis\r\nMüller;5 €".encode("cp1252"), "text", ""),
    "Cyrillic": ("Привет".encode("cp1251"), "other_encoding", ""),
    "Japanese": ("名前、年齢".encode("shift-jis"), "other_encoding", ""),
    "western with a zero": ("Grüße\0".encode("cp1252"), "other", ""),
    "wide": ("words".encode("utf-16"), "text", ""),
    "wide, big end first": (b"\xfe\xff" + "Grüße".encode("utf-16-be"), "text", ""),
    "wide without a mark": ("words".encode("utf-16-le"), "other", ""),
    "wide with a zero": ("words\0".encode("utf-16"), "other_encoding", ""),
    "half a letter": ("words".encode("utf-16")[:-1], "other_encoding", ""),
    "sound": (WAV, "other", ""),
    "archive": (b"PK\x03\x04\x14\x00\x00", "package", ""),
    "empty archive": (b"PK\x05\x06" + b"\x00" * 18, "package", ""),
    "old office": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 30, "old_office", ""),
    "office with a password": (locked_office(), "encrypted", ""),
    "rich text": (b"{\\rtf1 Words}", "rtf", ""),
    "zero in text": (b"words\x00words", "other", ""),
    "half a picture": (PNG[:6] + b"\x00", "other", ""),
}


@pytest.mark.parametrize(("data", "kind", "media_type"), FILES.values(), ids=FILES)
def test_the_kind_is_told_by_the_bytes(data: bytes, kind: Kind, media_type: str) -> None:
    assert (detect_kind(data), detect_model_type(data)) == (kind, media_type)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_text_is_read_without_the_mark_of_its_encoding(encoding: str) -> None:
    assert decode_text("Müller; 5 €".encode(encoding)) == "Müller; 5 €"
