"""Mask secrets in stored texts: known secrets everywhere, unknown ones by the name of their key,
header or parameter."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "•••"
MIN_SECRET_CHARACTERS = 4

_WORDS = (
    r"pass(?:word|wd|phrase)|secret|token|api[_-]?key|private[_-]?key|authorization|credential"
    r"|assertion|cookie|session[_-]?id|code[_-]verifier|(?:auth|device)[a-z]*[_-]code"
)
_SECRET_NAME = re.compile(_WORDS, re.IGNORECASE)
_SECRET_HEADER = re.compile(f"{_WORDS}|session|[_-]key$|[_-]auth$", re.IGNORECASE)
# A JSON key that names a secret, and its value; also in JSON inside a JSON string, where a
# backslash precedes each quote. Lengths are bounded, so that no text takes long to search.
_KEY = rf'"[^"\\]{{0,60}}(?:{_WORDS})[^"\\]{{0,60}}"\s{{0,20}}:\s{{0,20}}'
_IN_JSON = re.compile(rf'({_KEY})(?:"(?:[^"\\]++|\\.)*+(?:"|\\?$)|[-\w.+]+)', re.IGNORECASE)
_NESTED = re.compile(rf"{_KEY}[\[{{]", re.IGNORECASE)
_IN_INNER_JSON = re.compile(
    rf'(\\"[^"\\]{{0,60}}(?:{_WORDS})[^"\\]{{0,60}}\\"\s{{0,20}}:\s{{0,20}}\\")'
    r'(?:[^"\\]++|\\[^"])*+',
    re.IGNORECASE,
)
# Queries, fragments and forms have further names: the parameters of authorization servers.
_IN_QUERY = re.compile(
    rf"((?:(?:^|[?&#;\s\"]|\\u0026)[\w.-]{{0,40}}(?:{_WORDS})[\w.-]{{0,40}}"
    r"|(?:^|[?&#;]|\\u0026)(?:code|state|sig|signature|key|auth|jwt|sid))=)[^&#\s\"'<>\\]+",
    re.IGNORECASE,
)
_IN_HEADER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
# An access token of this server. Its prefix stays, so that its owner can be found.
_OUR_TOKEN = re.compile(r"\b(cs_[0-9a-f]{8}_)[\w-]{40,50}")
# Each match of the patterns contains one of these pieces. A search for plain pieces takes a tenth
# of the time. `casefold` covers all forms of their letters.
_PIECES = (
    *("=", "bearer", "bas", "pass", "secret", "token", "key", "author", "credent", "assert"),
    *("cook", "sess", "code", "cs_"),
)
_MAX_CACHED_NAMES = 1024
# Keys that look secret but are needed to read a trace.
_NOT_SECRET = ("progressToken", "nextCursor")


def mask_secrets(text: str, forms: Sequence[str], *, was_cut: bool = False) -> str:
    """Return the text without the known secrets, whose forms `list_secret_forms` returns, and
    without values whose names mark them as secret.

    If the text was cut (`was_cut`), its end is dropped too, because it may be the beginning of a
    secret.
    """
    for form in forms:
        text = text.replace(form, MASK)
    if was_cut and forms:
        text = text[: -len(forms[0])]
    folded = text.casefold()
    if not any(piece in folded for piece in _PIECES):
        return text
    if _NESTED.search(text):
        text = _mask_nested(text)
    for pattern in (_IN_JSON, _IN_INNER_JSON, _IN_QUERY, _IN_HEADER, _OUR_TOKEN):
        text = pattern.sub(_mask_value, text)
    return text


def mask_all_except(text: str, keeps: re.Pattern[str]) -> str:
    """Return the text with everything masked that `keeps` does not match."""
    shown, end = "", 0
    for found in keeps.finditer(text):
        shown += (MASK if found.start() > end else "") + found.group(0)
        end = found.end()
    return shown + (MASK if end < len(text) else "")


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is usually a secret."""
    return name not in _NOT_SECRET and _SECRET_NAME.search(name) is not None


def list_secret_forms(secrets: Iterable[str]) -> list[str]:
    """Return each secret as it is and as it is written in JSON and URLs, longest first."""
    found: set[str] = set()
    for secret in secrets:
        if len(secret) >= MIN_SECRET_CHARACTERS:
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
    if counts_tokens or any(harmless in start for harmless in _NOT_SECRET):
        return match.group(0)
    if value.startswith(" "):
        return f"{start} {MASK}"
    return f'{start}"{MASK}"' if start.startswith('"') and ":" in start else f"{start}{MASK}"


def _mask_nested(text: str) -> str:
    """Mask a list or an object under a secret's name as a whole. A text that is not complete JSON
    is cut at the first of them, because its end is unknown."""
    try:
        return json.dumps(_mask_containers(json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        found = _NESTED.search(text)
        return text if found is None else f"{text[: found.end() - 1]}{MASK}"


def _mask_containers(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: MASK if _is_secret_container(name, item) else _mask_containers(item)
            for name, item in value.items()
        }
    return [_mask_containers(item) for item in value] if isinstance(value, list) else value


def _is_secret_container(name: str, item: Any) -> bool:
    return isinstance(item, dict | list) and bool(_SECRET_NAME.search(name))


def mask_headers(headers: dict[str, str], forms: Sequence[str]) -> dict[str, str]:
    """Return the headers as the trace stores them. `forms` comes from `list_secret_forms`."""
    return {
        name: MASK if _is_secret_header(name) else mask_secrets(value, forms)
        for name, value in headers.items()
    }


@lru_cache(_MAX_CACHED_NAMES)
def _is_secret_header(name: str) -> bool:
    return bool(_SECRET_HEADER.search(name))
