"""Tool ids: the flat names under which a model sees the tools of services."""

import hashlib
import json
import re

MAX_LENGTH = 124
_HASH_LENGTH = 12
_PLAIN_SERVICE = re.compile(r"[A-Za-z][A-Za-z0-9.-]*")
_PLAIN_TOOL = re.compile(r"[A-Za-z0-9_.-]+")
_LOOKS_HASHED = re.compile(rf".*\.[0-9a-f]{{{_HASH_LENGTH}}}")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_.-]")


def tool_id(service: str, tool: str, limit: int = MAX_LENGTH) -> str:
    """Return `{service}_{tool}` of letters, digits and `_ . -`, at most `limit` (32 or more)
    characters.

    Different pairs have different ids. If the plain name is ambiguous or too long, both parts are
    cut in proportion and a part of the pair's hash is appended.
    """
    plain = f"{service}_{tool}"
    return (
        plain
        if len(plain) <= limit and _is_plain(service, tool)
        else _shorten_with_hash(service, tool, limit)
    )


def _is_plain(service: str, tool: str) -> bool:
    """Return whether the first `_` of the plain name ends the service, and no character was
    replaced."""
    return bool(
        _PLAIN_SERVICE.fullmatch(service)
        and _PLAIN_TOOL.fullmatch(tool)
        and not _LOOKS_HASHED.fullmatch(tool)
    )


def _shorten_with_hash(service: str, tool: str, limit: int) -> str:
    pair = json.dumps([service, tool])
    suffix = "." + hashlib.sha256(pair.encode()).hexdigest()[:_HASH_LENGTH]
    head, tail = _NOT_ALLOWED.sub("_", service), _NOT_ALLOWED.sub("_", tool)
    if not head[:1].isalpha():
        head = f"_{head}"
    room = limit - len(suffix) - len("_")
    if len(head) + len(tail) > room:
        share = max(1, room * len(head) // (len(head) + len(tail)))
        head, tail = head[:share], tail[: room - share]
    return f"{head}_{tail}{suffix}"
