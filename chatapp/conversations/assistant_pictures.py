"""Pictures of assistants: made from uploads, stored, copied and removed."""

import base64
import hashlib

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.files.kinds import detect_kind
from chatapp.files.reader import PICTURE_TYPE, Unreadable, make_square_picture
from chatapp.models import Assistant, AssistantPicture
from chatapp.people.refused import Refused
from chatapp.rendering.sizes import format_size

from .uploads import Upload

MOST_BYTES = 5 * 1024 * 1024
HASH_CHARACTERS = 32
UNSUPPORTED = gettext_lazy("This file is not a PNG, JPEG, WebP or GIF picture. Choose another one.")


def find_limit() -> int:
    """Return how many bytes an uploaded picture may have. The server keeps no larger file."""
    return min(MOST_BYTES, settings.FILE_MAX_BYTES)


def make_picture(upload: Upload) -> bytes:
    """Return the picture to store. Takes up to some seconds and uses no database. Raises
    Refused."""
    if upload.size > find_limit():
        sentence = _("The picture has %(size)s. The limit is %(most)s. Choose a smaller one.")
        sizes = {"size": format_size(upload.size), "most": format_size(find_limit())}
        raise Refused(sentence % sizes)
    if detect_kind(upload.data) != "picture":
        raise Refused(str(UNSUPPORTED))
    try:
        return make_square_picture(upload.data)
    except Unreadable as problem:
        raise Refused(str(problem)) from None


def store_picture(assistant: Assistant, data: bytes) -> None:
    """Store the picture of an assistant, or remove it if there are no bytes. The caller holds a
    transaction in which the assistant is locked or new."""
    if data:
        AssistantPicture.objects.update_or_create(assistant=assistant, defaults={"data": data})
    else:
        AssistantPicture.objects.filter(assistant=assistant).delete()
    assistant.picture_hash = hashlib.sha256(data).hexdigest()[:HASH_CHARACTERS] if data else ""
    assistant.save(update_fields=["picture_hash"])


def make_data_uri(data: bytes) -> str:
    """Return a picture as an address of its own, for a page that cannot use the stored one."""
    return f"data:{PICTURE_TYPE};base64,{base64.b64encode(data).decode()}"


def copy_picture(source: Assistant, copy: Assistant) -> None:
    if source.picture_hash:
        for picture in AssistantPicture.objects.filter(assistant=source):
            store_picture(copy, bytes(picture.data))
