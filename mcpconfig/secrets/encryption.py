"""Secrets at rest, encrypted and bound to their place."""

import json

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class Undecryptable(Exception):
    """A stored secret cannot be read: its key is gone, or it was moved here from another row."""


def encrypt(secret: str, *, place: str) -> bytes:
    """The secret for this place only. `place` names table, row and field."""
    sealed = json.dumps({"place": place, "secret": secret})
    return _keys().encrypt(sealed.encode())


def decrypt(token: bytes, *, place: str) -> str:
    """The secret, if it was encrypted for this place with a key that is still known."""
    try:
        opened = json.loads(_keys().decrypt(token))
    except InvalidToken as error:
        raise Undecryptable("No known key opens this secret.") from error
    if opened["place"] != place:
        raise Undecryptable("This secret belongs to another row.")
    return str(opened["secret"])


def rotate(token: bytes) -> bytes:
    """The same secret under the first key; older keys can be removed when every row was rotated."""
    try:
        return _keys().rotate(token)
    except InvalidToken as error:
        raise Undecryptable("No known key opens this secret.") from error


def is_under_first_key(token: bytes) -> bool:
    try:
        Fernet(settings.ENCRYPTION_KEYS[0]).decrypt(token)
    except InvalidToken:
        return False
    return True


def _keys() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])


def ending(secret: str) -> str:
    """The last four characters, by which a person knows a long secret again."""
    return secret[-4:] if len(secret) >= 12 else ""
