"""Attachments of a message: resources stored as they were read, and the limits of all
attachments."""

import base64
import hashlib
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.models import Attachment, File, Member, Message, Part, QueuedMessage
from chatapp.people.refused import Refused
from chatapp.rendering.results import decode_text
from chatapp.rendering.sizes import format_size
from mcpconfig.models import Service
from mcpconfig.values.results import ResourceContents, ResourcePart, canonical_json, make_storable

MAX_DRAFTS = 50
DRAFT_DAYS = 7
NAME_CHARACTERS = 255


def store_draft(
    person: Member, service: Service, uri: str, name: str, contents: ResourceContents
) -> Attachment:
    """Store what was read as a draft of this person. Unsent drafts are deleted after a while."""
    kept = [_encode_part(part) for part in contents.parts]
    size = sum(_measure_part(part) for part in contents.parts)
    delete_old_drafts(person, size)
    return Attachment.objects.create(
        owner=person,
        service=service,
        service_name=str(service)[:100],
        uri=make_storable(uri),
        name=make_storable(name)[:NAME_CHARACTERS],
        mime_type=kept[0]["mimeType"] if kept else "",
        size=size,
        hash=hashlib.sha256(canonical_json(kept)).hexdigest(),
        was_cut=contents.was_cut,
        contents=kept,
        tainted_by=service.name[:100] if service.is_open else "",
    )


def load_drafts(person: Member, ids: Sequence[uuid.UUID]) -> list[Attachment]:
    """Return this person's drafts with these ids, in this order. Raise Refused."""
    if not ids:
        return []
    check_number(len(set(ids)))
    drafts = Attachment.objects.filter(owner=person, part=None).defer("contents").in_bulk(list(ids))
    if missing := set(ids) - set(drafts):
        raise Refused(
            ngettext(
                "%(count)d attachment no longer exists. Remove it, or attach it again.",
                "%(count)d attachments no longer exist. Remove them, or attach them again.",
                len(missing),
            )
            % {"count": len(missing)}
        )
    if sum(draft.size for draft in drafts.values()) > settings.MESSAGE_MAX_BYTES:
        raise Refused(
            _("The attachments are too large. The limit for a message is %(most)s. Remove some.")
            % {"most": format_size(settings.MESSAGE_MAX_BYTES)}
        )
    return [drafts[each] for each in dict.fromkeys(ids)]


def find_drafts(person: Member, ids: Sequence[uuid.UUID]) -> list[Attachment]:
    """Return this person's drafts with these ids, without missing ones."""
    if not ids:
        return []
    drafts = Attachment.objects.filter(owner=person, part=None, pk__in=ids)
    return list(drafts.defer("contents"))


def check_number(count: int) -> None:
    most = settings.MESSAGE_MAX_FILES
    if count > most:
        sentence = ngettext(
            "A message can have %(count)d attachment. Remove some.",
            "A message can have %(count)d attachments. Remove some.",
            most,
        )
        raise Refused(sentence % {"count": most})


def attach_to_message(message: Message, files: Sequence[Attachment]) -> None:
    """Make these drafts parts of the message, after its text. Each can be sent once."""
    for position, file in enumerate(files, start=1):
        part = Part.objects.create(message=message, position=position, kind=Part.Kind.FILE)
        if not Attachment.objects.filter(pk=file.pk, part=None).update(part=part):
            raise Refused(_("An attachment was sent with another message. Attach it again."))


def copy_attachments(message: Message) -> list[Attachment]:
    """Return copies of what is attached to a message, as drafts of its person."""
    attachments = Attachment.objects.filter(part__message=message).order_by("part__position")
    return [copy_attachment(each, None) for each in attachments]


def copy_attachment(attachment: Attachment, part: Part | None) -> Attachment:
    """Make `attachment` a stored copy of itself that belongs to this part, or to none, and return
    it."""
    file = File.objects.filter(attachment=attachment).first()
    attachment.pk, attachment.part = uuid.uuid4(), part
    attachment.save(force_insert=True)
    if file is not None:
        file.attachment = attachment
        file.save(force_insert=True)
    return attachment


def _encode_part(part: ResourcePart) -> dict[str, Any]:
    about = {"uri": part.uri, "mimeType": part.mime_type}
    text = part.text if part.text is not None else decode_text(part.blob, part.mime_type)
    if text is not None:
        return {**about, "text": text}
    return {**about, "blob": base64.b64encode(part.blob or b"").decode()}


def _measure_part(part: ResourcePart) -> int:
    return len(part.text.encode()) if part.text is not None else len(part.blob or b"")


def delete_old_drafts(person: Member, coming: int) -> None:
    """Delete unsent drafts that are too old, too many, or too large together with the `coming`
    bytes, oldest first. Those of queued messages stay: they will be sent."""
    unsent = Attachment.objects.filter(owner=person, part=None)
    drafts = unsent.exclude(pk__in=_find_queued(person))
    drafts.filter(created_at__lt=timezone.now() - timedelta(days=DRAFT_DAYS)).delete()
    kept, weight = 0, coming
    for pk, size in drafts.order_by("-created_at").values_list("pk", "size"):
        kept, weight = kept + 1, weight + size
        if kept >= MAX_DRAFTS or weight > settings.DRAFTS_MAX_BYTES:
            drafts.filter(pk=pk).delete()


def check_room_for_queued(person: Member, ids: Sequence[uuid.UUID]) -> None:
    """Raise Refused if the queued messages of this person would have more attachments together with
    these than a person may keep unsent."""
    sizes = Attachment.objects.filter(pk__in=_find_queued(person) | set(ids)).values_list("size")
    if len(sizes) > MAX_DRAFTS or sum(size for (size,) in sizes) > settings.DRAFTS_MAX_BYTES:
        sentence = _("Your queued messages have too many attachments. Wait until one is sent.")
        raise Refused(sentence, 409)


def _find_queued(person: Member) -> set[uuid.UUID]:
    """Return the ids of the attachments of this person's queued messages."""
    queued = QueuedMessage.objects.filter(conversation__owner=person).exclude(attachments=[])
    lists = queued.values_list("attachments", flat=True)
    return {uuid.UUID(each) for ids in lists for each in ids}
