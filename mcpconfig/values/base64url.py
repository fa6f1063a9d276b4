"""Bytes as text that fits into an address and a header: base64url without padding (RFC 4648, 5)."""

import base64
import binascii


def encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Return the bytes of a text with or without padding. Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
