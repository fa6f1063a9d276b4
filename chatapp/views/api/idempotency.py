"""The Idempotency-Key of a program: the same request with the same key is one act."""

from django.http import HttpRequest

from .bearer import Problem

KEY_CHARACTERS = 255


def key_of(request: HttpRequest) -> str:
    """The key, or nothing. Raises Problem."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ""
    if not 0 < len(key) <= KEY_CHARACTERS or not key.isascii() or not key.isprintable():
        message = f"An Idempotency-Key has 1 to {KEY_CHARACTERS} printable characters of ASCII."
        raise Problem(status=400, kind="idempotency_key", message=message)
    return key
