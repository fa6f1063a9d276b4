"""Encryption of secrets at rest. Each secret is bound to its place in the database."""

import base64
import json
from typing import TYPE_CHECKING

from django.conf import settings

from mcpconfig.values.lazy_module import LazyModule

if TYPE_CHECKING:
    from cryptography import fernet
else:
    # A tenth of the memory of a server that has no secret to open.
    fernet = LazyModule("cryptography.fernet")

KEY_BYTES = 32


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
    except fernet.InvalidToken as error:
        raise DecryptionError("No known key opens this secret.") from error
    if opened["place"] != place:
        raise DecryptionError("This secret belongs to another row.")
    return str(opened["secret"])


def rotate(token: bytes) -> bytes:
    """Encrypt the secret with the first key. Older keys can be removed after every row was
    rotated."""
    try:
        return _build_fernet().rotate(token)
    except fernet.InvalidToken as error:
        raise DecryptionError("No known key opens this secret.") from error


def is_under_first_key(token: bytes) -> bool:
    try:
        fernet.Fernet(settings.ENCRYPTION_KEYS[0]).decrypt(token)
    except fernet.InvalidToken:
        return False
    return True


def read_timestamp(token: bytes) -> int:
    """Return when the secret was encrypted, in seconds since 1970. Only for a token that one of the
    keys opens."""
    return int(_build_fernet().extract_timestamp(token))


def is_key(key: str) -> bool:
    """Whether secrets can be encrypted with this key, as the library checks it when it is used."""
    try:
        return len(base64.urlsafe_b64decode(key)) == KEY_BYTES
    except ValueError:
        return False


def _build_fernet() -> "fernet.MultiFernet":
    return fernet.MultiFernet([fernet.Fernet(key) for key in settings.ENCRYPTION_KEYS])


def get_visible_suffix(secret: str) -> str:
    """Return the last four characters, by which a person recognizes a long secret."""
    return secret[-4:] if len(secret) >= 12 else ""
