"""The tokens of shared links: the id of the link and a signature of it with SECRET_KEY.

A token can be shown to its owner again, and nothing in the database opens a link: without the key
nobody can make a token from a row.
"""

import base64
import binascii
import uuid

from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from chatapp.server.address import base_url

SALT = "chatapp.shared_link"
ID_BYTES = 16
TOKEN_CHARACTERS = 64


def make_token(link_id: uuid.UUID) -> str:
    """Return the 64 characters of the token of this link, which need no escape in an address."""
    return base64.urlsafe_b64encode(link_id.bytes + _sign(link_id)).decode()


def read_token(token: str) -> uuid.UUID | None:
    """Return the id of the link, or None if this server did not sign it."""
    if len(token) != TOKEN_CHARACTERS:
        return None
    try:
        data = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    link_id = uuid.UUID(bytes=data[:ID_BYTES])
    return link_id if constant_time_compare(data[ID_BYTES:], _sign(link_id)) else None


def build_address(link_id: uuid.UUID) -> str:
    """Return the whole URL of a shared link."""
    return base_url() + reverse("shared-chat", args=[make_token(link_id)])


def _sign(link_id: uuid.UUID) -> bytes:
    return salted_hmac(SALT, str(link_id), algorithm="sha256").digest()
