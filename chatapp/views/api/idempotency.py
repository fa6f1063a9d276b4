"""The Idempotency-Key header: the same request with the same key is executed once."""

from django.http import HttpRequest

from .bearer import Problem

KEY_CHARACTERS = 255


def read_key(request: HttpRequest) -> str:
    """Return the key, or an empty text. Raises Problem."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ""
    if not 0 < len(key) <= KEY_CHARACTERS or not key.isascii() or not key.isprintable():
        message = f"An Idempotency-Key has 1 to {KEY_CHARACTERS} printable characters of ASCII."
        raise Problem(status=400, kind="idempotency_key", message=message)
    return key
