"""The server's message when it refuses a request with an HTTP status: read from the beginning of
the body, without markup, and short enough to show."""

import json
import re
import unicodedata
from html.parser import HTMLParser
from http import HTTPStatus
from typing import Any

MAX_CHARACTERS = 300
_CHARSETS = {"utf-8", "us-ascii", "iso-8859-1", "windows-1252"}
_CHARSET = re.compile(r"charset=\"?([\w-]{1,20})", re.IGNORECASE)
# Where programs put the reason in JSON, the most telling first.
_KEYS = ("error_description", "message", "detail", "reason", "error", "title", "msg")
_IGNORED = frozenset(("script", "style", "template", "svg", "noscript"))
_HOST_CHECK = re.compile(
    r"\b(?:invalid|disallowed|unknown|unrecogni[sz]ed|forbidden|bad|missing)[\s_-]{0,3}"
    r"(?:http_)?(?:host|origin)\b"
    r"|\b(?:host|origin)(?: header)?\b.{0,80}\b(?:not (?:allowed|permitted|trusted)|mismatch)"
    r"|\b(?:host|origin)(?: header)? (?:is )?invalid\b"
    r"|\b(?:disallowedhost|allowed_?hosts|allowed_?origins)\b|dns.?rebinding|misdirected request",
    re.IGNORECASE,
)


class _TextOfHtml(HTMLParser):
    """Collects what a reader of the page sees."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._ignored = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._ignored += tag in _IGNORED
        self.pieces.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._ignored -= tag in _IGNORED and self._ignored > 0
        self.pieces.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._ignored:
            self.pieces.append(data)


def read_words(body: bytes, content_type: str, status: int) -> str:
    """Return what the server says in the beginning of a body, on one line; empty if it is no text,
    or says no more than the status does."""
    kind = content_type.partition(";")[0].strip().lower()
    if not (kind.startswith("text/") or "json" in kind or kind.endswith("xml") or not kind):
        return ""
    text = _decode(body, content_type)
    if "json" in kind or text.lstrip().startswith("{"):
        text = _find_in_json(text)
    if "html" in kind or kind.endswith("xml") or text.lstrip().startswith("<"):
        text = _strip_markup(text)
    words = " ".join(_without_controls(text).split())
    return "" if _only_repeats(words, status) else words


def shorten_words(words: str) -> str:
    return words if len(words) <= MAX_CHARACTERS else f"{words[: MAX_CHARACTERS - 1]}…"


def is_host_check(words: str, status: int | None) -> bool:
    """Whether the server refuses the name by which it was addressed: protection against DNS
    rebinding compares the headers Host and Origin with a list."""
    return status == HTTPStatus.MISDIRECTED_REQUEST or bool(_HOST_CHECK.search(words))


def _decode(body: bytes, content_type: str) -> str:
    named = _CHARSET.search(content_type)
    charset = named[1].lower() if named else "utf-8"
    text = body.decode(charset if charset in _CHARSETS else "utf-8", "replace")
    # A character that the end of what was read has cut in two.
    return text.rstrip("\ufffd")


def _find_in_json(text: str) -> str:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.lstrip().startswith(("{", "[")) else text
    for _depth in range(3):
        if isinstance(value, list) and value:
            value = value[0]
        if not isinstance(value, dict):
            break
        value = next((value[key] for key in _KEYS if value.get(key)), "")
    return value if isinstance(value, str) else ""


def _strip_markup(text: str) -> str:
    parser = _TextOfHtml()
    parser.feed(text)
    return "".join(parser.pieces)


def _without_controls(text: str) -> str:
    """Replace control, format and private characters: some change the direction of a text."""
    return "".join(
        " " if unicodedata.category(character).startswith("C") else character for character in text
    )


def _only_repeats(words: str, status: int) -> bool:
    """Whether these are only the number and the name of the status."""
    said = set(re.findall(r"[a-z]+", words.lower()))
    try:
        phrase = HTTPStatus(status).phrase.lower().split()
    except ValueError:
        phrase = []
    return said <= {*phrase, "http", "error", "status", "code", "nginx"}
