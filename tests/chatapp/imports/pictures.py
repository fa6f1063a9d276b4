"""Small pictures, and exports of each program that have them."""

import base64
import struct
import zlib
from typing import Any

from . import samples
from .samples import gpt_chat, gpt_node


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(red: int = 40, green: int = 120, blue: int = 200, side: int = 64) -> bytes:
    """A square of one colour."""
    row = b"\0" + bytes((red, green, blue)) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(row * side))
    return b"\x89PNG\r\n\x1a\n" + chunks + _chunk(b"IEND", b"")


JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(20) + b"\xff\xd9"
GIF = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"
WEBP = b"RIFF\x1a\x00\x00\x00WEBPVP8L" + bytes(14)
PAGE = b"<!doctype html><script>alert(1)</script>"


def data_uri(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def pointer(address: str) -> dict[str, Any]:
    return samples.PICTURE | {"asset_pointer": address}


def gpt_files(*listed: dict[str, Any]) -> dict[str, Any]:
    return {"attachments": list(listed)}


def gpt_with(*addresses: str, **more: Any) -> dict[str, Any]:
    """A chat of ChatGPT whose question has these pictures."""
    parts = [*map(pointer, addresses), "What is this?"]
    question = gpt_node("q", None, "user", *parts, **more)
    return gpt_chat(question, gpt_node("a", "q", "assistant", "A pond.", seconds=1))


def gpt_zip(chat: dict[str, Any], files: dict[str, bytes]) -> bytes:
    return samples.to_zip({"conversations.json": samples.to_json(chat), **files})


def webui_with(*files: dict[str, Any], **more: Any) -> bytes:
    """A chat of Open WebUI whose question has these files."""
    question = {
        "id": "w1",
        "parentId": None,
        "role": "user",
        "content": "Which frogs?",
        "files": list(files),
        **more,
    }
    chat = {"history": {"messages": {"w1": question}, "currentId": "w1"}}
    return samples.to_json({"id": "frogs", "title": "Frogs", "chat": chat})
