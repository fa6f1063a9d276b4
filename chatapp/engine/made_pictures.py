"""Pictures that a model makes: checked while the answer is read, stored with its parts."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.files.kinds import PDF, detect_model_type
from chatapp.models import Attachment, File, Part
from chatapp.rendering.sizes import format_size

MAX_PICTURES = 10
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of a known type, named by its place among the pictures of the answer."""

    name: str
    media_type: str
    data: bytes = field(repr=False)


def read_picture(encoded: str, earlier: Sequence[Picture]) -> Picture | str:
    """Return the picture, or a sentence for the person about why it is left out.

    The limits are those of a message's files.
    """
    most = min(MAX_PICTURES, settings.MESSAGE_MAX_FILES)
    if len(earlier) >= most:
        return ngettext(
            "The model made more than %(count)d image. The others are not shown.",
            "The model made more than %(count)d images. The others are not shown.",
            most,
        ) % {"count": most}
    size = len(encoded) * 3 // 4
    left = settings.MESSAGE_MAX_BYTES - sum(len(picture.data) for picture in earlier)
    if size > min(settings.FILE_MAX_BYTES, left):
        return _("The model made an image that is too large to show (%(size)s).") % {
            "size": format_size(size)
        }
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    found = detect_model_type(data)
    if found not in ENDINGS:
        if found == PDF:
            return _("The model sent a PDF instead of an image, so it is not shown.")
        return _(
            "The model sent a file that is not a PNG, JPEG, GIF or WebP image. It is not shown."
        )
    name = f"{_('Picture %(number)d') % {'number': len(earlier) + 1}}.{ENDINGS[found]}"
    return Picture(name=name, media_type=found, data=data)


def store_pictures(
    owner_id: int, parts: Sequence[Part], pictures: Sequence[Picture | None]
) -> None:
    """Store the pictures of these parts as files of the person whose chat it is."""
    for part, picture in zip(parts, pictures, strict=True):
        if picture is None:
            continue
        attachment = Attachment.objects.create(
            owner_id=owner_id,
            part=part,
            name=picture.name,
            mime_type=picture.media_type,
            size=len(picture.data),
            hash=hashlib.sha256(picture.data).hexdigest(),
            contents=[],
        )
        File.objects.create(attachment=attachment, data=picture.data)
