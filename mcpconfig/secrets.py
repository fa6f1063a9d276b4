"""Secrets at rest, encrypted and bound to their place, and masked wherever they would show."""

import json
import re
from collections.abc import Iterable

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

MASK = "•••"
_SECRET_HEADERS = frozenset(
    ("authorization", "cookie", "set-cookie", "proxy-authorization", "mcp-session-id")
)
_SECRET_KEY = re.compile(
    r'("[^"]*(?:password|passwd|secret|token|api_?key|authorization|credential)[^"]*"\s*:\s*)'
    r'"(?:[^"\\]|\\.)*("|$)',
    re.IGNORECASE,
)
# Not a secret although the key says so: it names a progress report and is needed to read a trace.
_HARMLESS_KEYS = ('"progressToken"', '"nextCursor"')


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
    return _keys().rotate(token)


def _keys() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])


def ending(secret: str) -> str:
    """The last four characters, by which a person knows a long secret again."""
    return secret[-4:] if len(secret) >= 12 else ""


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text without the known secrets, and without what JSON keys call a secret."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, MASK)
    return _SECRET_KEY.sub(_mask_value, text)


def _mask_value(match: re.Match[str]) -> str:
    if match.group(1).startswith(_HARMLESS_KEYS):
        return match.group(0)
    return f'{match.group(1)}"{MASK}"'


def masked_headers(headers: dict[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """The headers as a trace may keep them."""
    known = list(secrets)
    return {
        name: MASK if name.lower() in _SECRET_HEADERS else masked(value, known)
        for name, value in headers.items()
    }
