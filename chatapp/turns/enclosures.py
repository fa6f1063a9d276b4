"""The pictures and PDF files of a conversation that go to the model as they are: the newest, as
many as one request holds. The others are there without their bytes, so that they can be named."""

import base64
import binascii
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chatapp.files.kinds import PDF, encoded_type
from chatapp.models import File, Part
from chatapp.providers.request import Media
from chatapp.rendering.media import byte_count

from .attachment_text import marked_words
from .held_results import may_be_told

MOST_FILES = 20
MOST_PDF = 5
# What the narrowest provider takes in one request; base64 makes the bytes a third more.
MOST_BYTES = 14_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Enclosure:
    """One file in a part. Bytes of a service are in the row already (`base64`); those of a person's
    own `file` are read once it is chosen. `words` stand for a PDF where it cannot go. Two that are
    alike are two: each counts."""

    part: int
    media_type: str
    size: int
    name: str = ""
    words: str = ""
    pages: int | None = None
    base64: str = ""
    file: uuid.UUID | None = None


class Enclosures:
    """What of these parts, in the order of the conversation, goes along."""

    def __init__(self, parts: Iterable[Part]) -> None:
        found = [each for part in parts for each in _found_in(part)]
        self._found = found
        self._kept = _newest(found)
        chosen = {each.file for each in self._kept if each.file is not None}
        rows = File.objects.filter(pk__in=chosen).values_list("pk", "data")
        self._data = {pk: base64.b64encode(data).decode() for pk, data in rows}

    def of(self, part: Part) -> tuple[Media, ...]:
        return tuple(
            Media(
                media_type=each.media_type,
                base64=self._bytes_of(each) if each in self._kept else "",
                name=each.name,
                words=each.words,
                pages=each.pages,
            )
            for each in self._found
            if each.part == part.pk
        )

    def _bytes_of(self, each: Enclosure) -> str:
        return each.base64 if each.file is None else self._data[each.file]


def _newest(found: Sequence[Enclosure]) -> list[Enclosure]:
    """The latest that fit, in their own order. One that is too large leaves room for older ones."""
    kept: list[Enclosure] = []
    room, pdf = MOST_BYTES, MOST_PDF
    for each in reversed(found):
        fits = each.size <= room and (pdf or each.media_type != PDF)
        if len(kept) < MOST_FILES and fits and _is_sound(each):
            kept.insert(0, each)
            room -= each.size
            pdf -= each.media_type == PDF
    return kept


def _is_sound(each: Enclosure) -> bool:
    """Bytes that nobody can decode would be refused, and with them the whole request."""
    try:
        base64.b64decode(each.base64, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(each.base64) % 4 == 0


def _found_in(part: Part) -> Iterator[Enclosure]:
    if part.kind == Part.Kind.FILE:
        yield from _attached(part)
    elif part.tool_call is not None and may_be_told(part.tool_call):
        for block in part.tool_call.content:
            yield from _of_service(part, block.get("data"), "")
            yield from _of_service(part, *_resource(block))


def _attached(part: Part) -> Iterator[Enclosure]:
    attachment = part.attachment
    for contents in attachment.contents:
        yield from _of_service(part, contents.get("blob"), attachment.name)
    if attachment.is_own_file and not attachment.mime_type.startswith("text/"):
        yield Enclosure(
            part=part.pk,
            media_type=attachment.mime_type,
            size=attachment.size,
            name=attachment.name,
            words=marked_words(attachment) if attachment.file.words else "",
            pages=attachment.file.pages or None,
            file=attachment.pk,
        )


def _of_service(part: Part, data: object, name: str) -> Iterator[Enclosure]:
    found = encoded_type(data)
    if isinstance(data, str) and found:
        yield Enclosure(
            part=part.pk, media_type=found, size=byte_count(data), name=name, base64=data
        )


def _resource(block: dict[str, Any]) -> tuple[object, str]:
    resource = block.get("resource")
    if block.get("type") != "resource" or not isinstance(resource, dict):
        return None, ""
    return resource.get("blob"), str(resource.get("uri") or "")
