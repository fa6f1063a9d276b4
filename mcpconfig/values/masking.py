"""Secrets kept out of what is stored for people to read: known ones wherever they stand, unknown
ones by the name that they go by."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "•••"
SHORTEST = 4

_WORDS = (
    r"pass(?:word|wd|phrase)|secret|token|api[_-]?key|private[_-]?key|authorization|credential"
    r"|assertion|cookie|session[_-]?id|code[_-]verifier|(?:auth|device)[a-z]*[_-]code"
)
_SECRET_NAME = re.compile(_WORDS, re.IGNORECASE)
_SECRET_HEADER = re.compile(f"{_WORDS}|session|[_-]key$|[_-]auth$", re.IGNORECASE)
# A key of JSON that names a secret, and its value; also in JSON inside a string of JSON, where a
# backslash stands before each quote. Lengths are bounded, so that no text takes long to search.
_KEY = rf'"[^"\\]{{0,60}}(?:{_WORDS})[^"\\]{{0,60}}"\s{{0,20}}:\s{{0,20}}'
_IN_JSON = re.compile(rf'({_KEY})(?:"(?:[^"\\]++|\\.)*+(?:"|\\?$)|[-\w.+]+)', re.IGNORECASE)
_NESTED = re.compile(rf"{_KEY}[\[{{]", re.IGNORECASE)
_IN_INNER_JSON = re.compile(
    rf'(\\"[^"\\]{{0,60}}(?:{_WORDS})[^"\\]{{0,60}}\\"\s{{0,20}}:\s{{0,20}}\\")'
    r'(?:[^"\\]++|\\[^"])*+',
    re.IGNORECASE,
)
# In a query, a fragment or a form there are further names: what an authorization server hands out.
_IN_QUERY = re.compile(
    rf"((?:(?:^|[?&#;\s\"]|\\u0026)[\w.-]{{0,40}}(?:{_WORDS})[\w.-]{{0,40}}"
    r"|(?:^|[?&#;]|\\u0026)(?:code|state|sig|signature|key|auth|jwt|sid))=)[^&#\s\"'<>\\]+",
    re.IGNORECASE,
)
_IN_HEADER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
# What opens this server to a program. Who finds one in a trace may still tell whose it was.
_OUR_TOKEN = re.compile(r"\b(cs_[0-9a-f]{8}_)[\w-]{40,50}")
# One of these is in whatever any of the patterns matches. Looking for plain pieces takes a tenth of
# the time; none has a letter whose other cases `casefold` does not know.
_PIECES = (
    *("=", "bearer", "bas", "pass", "secret", "token", "key", "author", "credent", "assert"),
    *("cook", "sess", "code", "cs_"),
)
_NAMES_REMEMBERED = 1024
# Not secrets although the key says so: they are needed to read a trace.
_HARMLESS = ("progressToken", "nextCursor")


def masked(text: str, forms: Sequence[str], *, was_cut: bool = False) -> str:
    """The text without the known secrets, of which `forms_of` says how they may be written, and
    without what names call a secret.

    Of a text that was cut, the end is dropped too: it may be the beginning of a secret.
    """
    for form in forms:
        text = text.replace(form, MASK)
    if was_cut and forms:
        text = text[: -len(forms[0])]
    folded = text.casefold()
    if not any(piece in folded for piece in _PIECES):
        return text
    if _NESTED.search(text):
        text = _without_nested(text)
    for pattern in (_IN_JSON, _IN_INNER_JSON, _IN_QUERY, _IN_HEADER, _OUR_TOKEN):
        text = pattern.sub(_mask_value, text)
    return text


def unseen(text: str, keeps: re.Pattern[str]) -> str:
    """The text with a mask for whatever lies between what `keeps` matches."""
    shown, end = "", 0
    for found in keeps.finditer(text):
        shown += (MASK if found.start() > end else "") + found.group(0)
        end = found.end()
    return shown + (MASK if end < len(text) else "")


def names_secret(name: str) -> bool:
    """Whether what goes by this name is usually a secret."""
    return name not in _HARMLESS and _SECRET_NAME.search(name) is not None


def forms_of(secrets: Iterable[str]) -> list[str]:
    """Each secret as it is, and as it looks inside JSON and URLs; the longest first."""
    found: set[str] = set()
    for secret in secrets:
        if len(secret) >= SHORTEST:
            quoted = json.dumps(secret)[1:-1]
            found |= {secret, quoted, json.dumps(quoted)[1:-1]}
            found |= {
                json.dumps(secret, ensure_ascii=False)[1:-1],
                quote(secret),
                quote(secret, ""),
            }
            found.add(quote_plus(secret))
    return sorted(found, key=len, reverse=True)


def _mask_value(match: re.Match[str]) -> str:
    start, value = match.group(1), match.group(0)[len(match.group(1)) :]
    counts_tokens = start.rstrip(': "\n').lower().endswith("tokens") and value[0] != '"'
    if counts_tokens or any(harmless in start for harmless in _HARMLESS):
        return match.group(0)
    if value.startswith(" "):
        return f"{start} {MASK}"
    return f'{start}"{MASK}"' if start.startswith('"') and ":" in start else f"{start}{MASK}"


def _without_nested(text: str) -> str:
    """A list or an object under a secret's name is masked as a whole. Where the text is no whole
    JSON it ends before the first of these: nobody can tell where that one ends."""
    try:
        return json.dumps(_scrubbed(json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        found = _NESTED.search(text)
        return text if found is None else f"{text[: found.end() - 1]}{MASK}"


def _scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: MASK if _names_a_container(name, item) else _scrubbed(item)
            for name, item in value.items()
        }
    return [_scrubbed(item) for item in value] if isinstance(value, list) else value


def _names_a_container(name: str, item: Any) -> bool:
    return isinstance(item, dict | list) and bool(_SECRET_NAME.search(name))


def masked_headers(headers: dict[str, str], forms: Sequence[str]) -> dict[str, str]:
    """The headers as a trace may keep them, by what `forms_of` says of the secrets."""
    return {
        name: MASK if _is_secret_header(name) else masked(value, forms)
        for name, value in headers.items()
    }


@lru_cache(_NAMES_REMEMBERED)
def _is_secret_header(name: str) -> bool:
    return bool(_SECRET_HEADER.search(name))
