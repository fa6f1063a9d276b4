"""Words that came from a provider: fit to be stored, and without the secrets of the account."""

import json
from typing import Any

from chatapp.providers.account import Account

# What a column of numbers holds.
LARGEST_COUNT = 2_147_483_647


def storable(value: object) -> str:
    """Text that every database takes: no half characters, no NUL. Anything but text is nothing."""
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value.replace("\0", "")


def as_object(value: object) -> dict[str, Any]:
    """What servers send in the place of an object counts as an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value <= LARGEST_COUNT else 0


def without_secrets(text: str, account: Account) -> str:
    """What a provider or its SDK said of a request, for the log."""
    headers = (value for _, value in account.headers)
    for secret in filter(None, [account.key, account.session_token, *headers]):
        text = text.replace(secret, "…")
    return text


def plain_object(text: str) -> dict[str, Any]:
    """The arguments of a call without what Python alone takes for JSON: NaN, half characters."""
    value = json.loads(text, parse_constant=str)
    plain: dict[str, Any] = json.loads(storable(json.dumps(value, ensure_ascii=False)))
    return plain
