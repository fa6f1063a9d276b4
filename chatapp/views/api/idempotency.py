"""The Idempotency-Key header: the same request with the same key is executed once."""

from django.http import HttpRequest
from django.utils.translation import gettext as _

from .bearer import Problem

KEY_CHARACTERS = 255


def read_key(request: HttpRequest) -> str:
    """Return the key, or an empty text. Raises Problem."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ""
    if not 0 < len(key) <= KEY_CHARACTERS or not key.isascii() or not key.isprintable():
        message = _("An Idempotency-Key must have 1 to %(most)d printable ASCII characters.") % {
            "most": KEY_CHARACTERS
        }
        raise Problem(status=400, kind="idempotency_key", message=message)
    return key
