"""Pictures, PDF and text files in OpenAI's two formats, and how they are removed.

Text files are sent as text, because every model reads text.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from chatapp.providers.refusals import refuses_documents, refuses_pictures
from chatapp.providers.request import Media

Part = dict[str, Any]
PDF = "application/pdf"
REFUSED = {
    refuses_pictures: ("input_image", "image_url"),
    refuses_documents: ("input_file", "file"),
}


def build_responses_content(text: str, media: Iterable[Media]) -> str | list[Part]:
    """Return the content. Text without files stays a plain text, which every server takes."""
    parts = list(_build_responses_parts(media))
    return [{"type": "input_text", "text": text}, *parts] if parts else text


def build_chat_content(text: str, media: Iterable[Media]) -> str | list[Part]:
    parts = list(_build_chat_parts(media))
    return [{"type": "text", "text": text}, *parts] if parts else text


def find_refused_types(complaint: str) -> tuple[str, ...]:
    """Return the types of parts that a complaint is about."""
    return tuple(
        kind for is_refused, kinds in REFUSED.items() if is_refused(complaint) for kind in kinds
    )


def has_parts(content: object, kinds: tuple[str, ...]) -> bool:
    return isinstance(content, list) and any(part.get("type") in kinds for part in content)


def remove_parts(content: object, kinds: tuple[str, ...]) -> object:
    """Return the content without such parts. The text that stays names them."""
    if not isinstance(content, list):
        return content
    kept = [part for part in content if part.get("type") not in kinds]
    return kept[0]["text"] if len(kept) == 1 else kept


def _build_responses_parts(media: Iterable[Media]) -> Iterator[Part]:
    for each in media:
        if each.is_picture:
            yield {"type": "input_image", "image_url": each.data_url}
        elif each.media_type == PDF:
            yield {"type": "input_file", "filename": _name_file(each), "file_data": each.data_url}
        elif each.media_type.startswith("text/"):
            yield {"type": "input_text", "text": _read_text(each)}


def _build_chat_parts(media: Iterable[Media]) -> Iterator[Part]:
    for each in media:
        if each.is_picture:
            yield {"type": "image_url", "image_url": {"url": each.data_url}}
        elif each.media_type == PDF:
            file = {"filename": _name_file(each), "file_data": each.data_url}
            yield {"type": "file", "file": file}
        elif each.media_type.startswith("text/"):
            yield {"type": "text", "text": _read_text(each)}


def _name_file(media: Media) -> str:
    return media.name or "document.pdf"


def _read_text(media: Media) -> str:
    text = base64.b64decode(media.base64).decode(errors="replace")
    return f"{media.name or 'File'}:\n{text}"
