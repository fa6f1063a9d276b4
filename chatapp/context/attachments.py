"""What a person sends with a message: resources, kept as they were when they were read, and what
is true of all attachments."""

import base64
import hashlib
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from chatapp.models import Attachment, Member, Message, Part
from chatapp.rendering.media import words_in
from mcpconfig.models import Service
from mcpconfig.results import ResourceContents, ResourcePart, canonical_json, storable

from .refusals import Refused

MOST_DRAFTS = 50
DRAFT_DAYS = 7
NAME_CHARACTERS = 255


def keep(
    person: Member, service: Service, uri: str, name: str, contents: ResourceContents
) -> Attachment:
    """Store what was read as a draft of this person. Drafts that nobody sent go with time."""
    kept = [_stored(part) for part in contents.parts]
    size = sum(_size(part) for part in contents.parts)
    forget_old_drafts(person, size)
    return Attachment.objects.create(
        owner=person,
        service=service,
        service_name=str(service)[:100],
        uri=storable(uri),
        name=storable(name)[:NAME_CHARACTERS],
        mime_type=kept[0]["mimeType"] if kept else "",
        size=size,
        hash=hashlib.sha256(canonical_json(kept)).hexdigest(),
        was_cut=contents.was_cut,
        contents=kept,
        tainted_by=service.name[:100] if service.is_open else "",
    )


def chosen(person: Member, ids: Sequence[uuid.UUID]) -> list[Attachment]:
    """This person's drafts of these ids, in this order. Raises Refused."""
    check_number(len(set(ids)))
    drafts = Attachment.objects.filter(owner=person, part=None).defer("contents").in_bulk(list(ids))
    if missing := set(ids) - set(drafts):
        raise Refused(
            f"{len(missing)} of the attachments is not there any more. Leave it out, or attach it "
            "again."
        )
    if sum(draft.size for draft in drafts.values()) > settings.MESSAGE_MAX_BYTES:
        raise Refused(
            f"All attachments of a message together may have {in_words(settings.MESSAGE_MAX_BYTES)}"
            ". Leave some out."
        )
    return [drafts[each] for each in dict.fromkeys(ids)]


def check_number(count: int) -> None:
    most = settings.MESSAGE_MAX_FILES
    if count > most:
        raise Refused(f"A message takes {most} attachments. Leave some out.")


def send_with(message: Message, files: Sequence[Attachment]) -> None:
    """Make these drafts parts of the message, after its text; each can be sent once."""
    for position, file in enumerate(files, start=1):
        part = Part.objects.create(message=message, position=position, kind=Part.Kind.FILE)
        if not Attachment.objects.filter(pk=file.pk, part=None).update(part=part):
            raise Refused("One of the attachments was sent with another message. Attach it again.")


def _stored(part: ResourcePart) -> dict[str, Any]:
    about = {"uri": part.uri, "mimeType": part.mime_type}
    text = part.text if part.text is not None else words_in(part.blob, part.mime_type)
    if text is not None:
        return {**about, "text": text}
    return {**about, "blob": base64.b64encode(part.blob or b"").decode()}


def _size(part: ResourcePart) -> int:
    return len(part.text.encode()) if part.text is not None else len(part.blob or b"")


def forget_old_drafts(person: Member, coming: int) -> None:
    """Drafts that nobody sent go with time, with number, and with what they weigh beside the
    `coming` bytes: the oldest first."""
    drafts = Attachment.objects.filter(owner=person, part=None)
    drafts.filter(created_at__lt=timezone.now() - timedelta(days=DRAFT_DAYS)).delete()
    kept, weight = 0, coming
    for pk, size in drafts.order_by("-created_at").values_list("pk", "size"):
        kept, weight = kept + 1, weight + size
        if kept >= MOST_DRAFTS or weight > settings.DRAFTS_MAX_BYTES:
            drafts.filter(pk=pk).delete()


def in_words(size: int) -> str:
    """A number of bytes with a plain space: another one would be drawn as a hidden character."""
    return filesizeformat(size).replace("\xa0", " ")
