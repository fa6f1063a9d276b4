"""Encryption of secrets at rest. Each secret is bound to its place in the database."""

import json

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class DecryptionError(Exception):
    """A stored secret cannot be decrypted: its key is gone, or it was copied from another row."""


def encrypt(secret: str, *, place: str) -> bytes:
    """Encrypt the secret for one place. `place` names table, row and field."""
    sealed = json.dumps({"place": place, "secret": secret})
    return _build_fernet().encrypt(sealed.encode())


def decrypt(token: bytes, *, place: str) -> str:
    """Return the secret, if it was encrypted for this place with a known key."""
    try:
        opened = json.loads(_build_fernet().decrypt(token))
    except InvalidToken as error:
        raise DecryptionError("No known key opens this secret.") from error
    if opened["place"] != place:
        raise DecryptionError("This secret belongs to another row.")
    return str(opened["secret"])


def rotate(token: bytes) -> bytes:
    """Encrypt the secret with the first key. Older keys can be removed after every row was
    rotated."""
    try:
        return _build_fernet().rotate(token)
    except InvalidToken as error:
        raise DecryptionError("No known key opens this secret.") from error


def is_under_first_key(token: bytes) -> bool:
    try:
        Fernet(settings.ENCRYPTION_KEYS[0]).decrypt(token)
    except InvalidToken:
        return False
    return True


def _build_fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])


def get_visible_suffix(secret: str) -> str:
    """Return the last four characters, by which a person recognizes a long secret."""
    return secret[-4:] if len(secret) >= 12 else ""
