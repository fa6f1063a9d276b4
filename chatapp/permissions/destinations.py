"""The values of a call that decide where data goes: addresses, recipients and web searches.

After untrusted content came into a turn, such a value may be the content's choice, and the rest of
the call may be data that leaves. A value counts by the name or the format of its parameter, or by
its own form. A choice that the tool's definition lists is not free. Whatever is unclear counts.
"""

import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import unquote

from chatapp.permissions.hosts import is_allowed, read_address_host, read_mail_host
from chatapp.permissions.risk import ToolFacts
from chatapp.permissions.risk_evidence import (
    Parameter,
    UnreadableSchema,
    detect_name_effect,
    read_parameters,
)
from chatapp.permissions.risk_vocabulary import word_set
from chatapp.permissions.word_splitting import has_many_marks, split_words

logger = logging.getLogger(__name__)

Kind = Literal["address", "recipient", "query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One free destination of a call. `parameter` is the argument that holds it. `host` is in the
    normal form of `permissions.hosts`; it is empty if it is unclear or if there is none.
    `is_inner`: it is in a list or an object, or in the name of a value."""

    parameter: str
    kind: Kind
    host: str = ""
    is_inner: bool = False


_FORMATS: dict[str, Kind] = {
    **dict.fromkeys(
        ("uri", "url", "iri", "uri-reference", "iri-reference", "uri-template"), "address"
    ),
    **dict.fromkeys(("hostname", "idn-hostname", "domain", "ip", "ipv4", "ipv6"), "address"),
    **dict.fromkeys(("email", "idn-email", "phone", "tel"), "recipient"),
}
_ADDRESSES = word_set("""
    url urls uri uris href hrefs link links endpoint endpoints webhook webhooks callback callbacks
    host hosts hostname hostnames domain domains server servers address addresses addr ip ips ipv
    proxy website websites webpage upstream
    """)
# At the beginning too: `url_to_fetch`.
_LEADING_ADDRESSES = word_set("url urls uri uris href webhook")
_CONNECTORS = word_set("to for of from in")
_NAMED_HOSTS = word_set("host domain")
_RECIPIENTS = word_set("""
    recipient recipients email emails mail mails cc bcc phone phones mobile msisdn addressee
    addressees receiver receivers
    """)
# For a tool that reads, these say whose data it reads, or the end of a period: `from`, `to`.
_RECIPIENTS_OF_ACTS = word_set(
    "to channel channels attendee attendees participant participants invitee invitees guest guests"
)
# For a tool that acts, the id of one of these says who receives something: `chat_id`.
_RECEIVING = word_set("chat channel user room")
_IDS = word_set("id ids")
# Beside a recipient or an address, the values of these names are only shown.
_SHOWN = word_set("name names label labels title titles display")
# Beside one of these, `address` is one of mail.
_MAIL = word_set("email mail")
# Values of these names may be addresses of mail too.
_OF_ANY_ADDRESS = (("address",), ("addresses",))
_QUERIES = word_set("""
    q query queries search searches prompt question questions keyword keywords term terms topic
    topics input text
    """)
# Values of these names have dots and are no hosts.
_DOTTED_NAMES = word_set("""
    file files path paths filename filenames folder directory dir glob module package packages
    class version versions branch ref tag field fields column columns table tables key keys property
    properties symbol function method sort order locale selector extension namespace
    """)
# Names of values have dots more often than they are hosts.
_OF_A_NAME = ("key",)
_FILE_ENDINGS = word_set("""
    c cc cfg conf cpp css csv doc docx gif go h htm html ini ipynb java jpeg jpg js json jsx kt lock
    log lua md mjs pdf php pl png ppt pptx ps py rb rs rst rtf scss sh sql svg tar tex tf toml ts
    tsv tsx txt vue xls xlsx xml yaml yml zip gz bak env mp mov wav
    """)

_MAX_VALUES = 5_000
_MAX_ADDRESSES = 50
_MAX_WHOLE_CHARACTERS = 2_000
_MAX_NAME_CHARACTERS = 300
_OPENED = re.compile(
    r"\s*(?:https?|wss?|ftps?|mailto|tel|sms|gopher|ldaps?):|\s*(?://|\\\\)\S", re.I
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://")
_SCHEME_END = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}$")
_ADDRESS_END = re.compile(r"[\s\"'<>`|]")
_MAIL_FORM = re.compile(r"[^\s@<>,;]{1,64}@[^\s@<>,;]{1,253}\.[^\s@<>,;.]{1,63}\.?")
_HOST_FORM = re.compile(
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,40}([^\W\d_][\w-]{0,61}[^\W_])\.?(:\d{1,5})?(?:[/?#].*)?",
    re.S,
)
_MAILS_INSIDE = re.compile(r"[^\s@<>,;:\"'()\[\]]{1,64}@[^\s@<>,;:\"'()\[\]]{1,253}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]+")
_ENTITY = re.compile(r"&#(?:\d{1,7}|[xX][0-9A-Fa-f]{1,6});?|&[A-Za-z]{2,31};")
# Some programs read this full stop as the dot of a host.
_IDEOGRAPHIC_DOT = re.compile(r"\u3002(?=[A-Za-z0-9])")
# A number as an IPv4 address, an IPv6 address in brackets, and a host with a port.
_OTHER_HOST_FORM = re.compile(
    r"(?:\d{8,12}|0[xX][0-9A-Fa-f]{1,8})(?::\d{1,5})?/\S*"
    r"|\[[0-9A-Fa-f.]{0,40}:[^\s\]]{1,60}\](?::\d{1,5})?(?:[/?#].*)?"
    r"|[A-Za-z0-9][\w.-]{0,252}:\d{1,5}/\S*|localhost:\d{1,5}",
    re.S,
)
_IPV4_FORM = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?:[/?#].*)?", re.S)
_SEPARATORS = re.compile(r"[\s,;]+")


def list_destinations(tool: ToolFacts, arguments: Mapping[str, Any]) -> tuple[Destination, ...]:
    """Return the free destinations of a call, without duplicates. `arguments` may be hostile: a
    call with too many values counts as one with an unclear address."""
    try:
        return tuple(dict.fromkeys(_iterate_destinations(_start_walk(tool), arguments)))
    except Exception:
        # Closed by default: if this code fails, the call must not count as harmless.
        logger.exception("The destinations of a call could not be read.")
        return (Destination(parameter="its values", kind="address"),)


def _iterate_destinations(walk: "_Walk", arguments: Mapping[str, Any]) -> Iterator[Destination]:
    for name, value in arguments.items():
        for found in _find_by_form(name, _OF_A_NAME, name):
            yield replace(found, is_inner=True)
        yield from walk.enter(name, value)


def list_free_parameters(tool: ToolFacts) -> dict[str, Kind]:
    """Return the parameters of a tool that are destinations by their name or format, and the kind
    of each."""
    walk = _start_walk(tool)
    kinds = {name: walk.find_kind(name) for name in walk.parameters}
    return {
        name: kind for name, kind in kinds.items() if kind is not None and not walk.is_closed(name)
    }


def list_forbidden(
    destinations: Iterable[Destination], allowed_hosts: Sequence[str]
) -> list[Destination]:
    """Return the destinations that are not at one of the allowed hosts."""
    return [each for each in destinations if not is_allowed(each.host, allowed_hosts)]


def _start_walk(tool: ToolFacts) -> "_Walk":
    return _Walk(
        parameters=_read_known_parameters(tool),
        reads=detect_name_effect(tool.name) == "reads",
        is_outward=looks_outward(tool),
    )


def _read_known_parameters(tool: ToolFacts) -> dict[str, list[Parameter]]:
    """Return the parameters at any depth by name. Without a readable schema, the names and the
    values decide alone."""
    known: dict[str, list[Parameter]] = {}
    try:
        for parameter in read_parameters(tool.input_schema):
            known.setdefault(parameter.name, []).append(parameter)
    except UnreadableSchema:
        return {}
    return known


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One walk through the values of a call."""

    parameters: Mapping[str, list[Parameter]]
    reads: bool
    is_outward: bool
    count: int = 0

    def enter(self, parameter: str, value: Any) -> Iterator[Destination]:
        """Yield the destinations in one argument."""
        is_inner = not isinstance(value, str | int | float)
        for found in self._enter_parts(parameter, value):
            yield replace(found, is_inner=True) if is_inner else found

    def _enter_parts(self, parameter: str, value: Any) -> Iterator[Destination]:
        waiting: list[tuple[str, Any, Kind | None]] = [
            (parameter, value, self.find_kind(parameter))
        ]
        while waiting:
            name, each, kind = waiting.pop()
            self.count += 1
            if self.count > _MAX_VALUES:
                yield Destination(parameter=parameter, kind="address")
                return
            if isinstance(each, Mapping):
                waiting.extend(self._list_inner(each, kind))
                yield from self._judge_keys(parameter, each)
            elif isinstance(each, list):
                waiting.extend((name, inner, kind) for inner in each)
            elif isinstance(each, str):
                yield from self._judge_text(parameter, name, each, kind)
            elif kind in ("address", "recipient") and type(each) in (int, float):
                yield Destination(parameter=parameter, kind=kind)

    def find_kind(self, name: str) -> Kind | None:
        """Return what the values of this name are by its words and its formats."""
        stated = [
            kind
            for parameter in self.parameters.get(name, ())
            for text in parameter.formats
            if (kind := _FORMATS.get(text))
        ]
        return stated[0] if stated else self._find_kind_by_words(_split_name(name))

    def is_closed(self, name: str) -> bool:
        """Return whether no value of this name is a text other than the listed choices."""
        return not any(each.is_free_text for each in self.parameters.get(name, ()))

    def _find_kind_by_words(self, words: Sequence[str]) -> Kind | None:
        if not words:
            return None
        last, before = words[-1], words[-2] if len(words) > 1 else ""
        if last in _RECIPIENTS or (last in _ADDRESSES and before in _MAIL):
            return "recipient"
        if last in _RECIPIENTS_OF_ACTS and not self.reads:
            return "recipient"
        if last in _IDS and before in _RECEIVING and not self.reads:
            return "recipient"
        is_led = words[0] in _LEADING_ADDRESSES and words[1:2] and words[1] in _CONNECTORS
        if last in _ADDRESSES or is_led or (last == "name" and before in _NAMED_HOSTS):
            return "address"
        return "query" if self.is_outward and last in _QUERIES else None

    def _list_inner(
        self, value: Mapping[str, Any], kind: Kind | None
    ) -> Iterator[tuple[str, Any, Kind | None]]:
        """Yield the entries of an object. Its kind is that of its entries. Beside one with a kind
        by itself, a name is only shown: `{"to": {"name": "Ada", "email": "ada@example.com"}}`."""
        own = {name: self.find_kind(name) for name in value}
        has_own = any(own.values())
        for name, inner in value.items():
            is_shown = has_own and not _SHOWN.isdisjoint(_split_name(name)[-1:])
            yield name, inner, own[name] or (None if is_shown else kind)

    def _is_listed(self, name: str, text: str) -> bool:
        """Return whether the text is a choice of a parameter that takes no other text."""
        known = self.parameters.get(name, ())
        return self.is_closed(name) and any(text in each.choices for each in known)

    def _judge_keys(self, parameter: str, value: Mapping[str, Any]) -> Iterator[Destination]:
        for name in value:
            yield from _find_by_form(parameter, _OF_A_NAME, name)

    def _judge_text(
        self, parameter: str, name: str, text: str, kind: Kind | None
    ) -> Iterator[Destination]:
        if not text.strip() or self._is_listed(name, text):
            return
        words = _split_name(name)
        if kind == "recipient":
            pieces = [piece for piece in _SEPARATORS.split(text, _MAX_VALUES) if piece]
            hosts = [read_mail_host(piece) for piece in pieces]
            # With more pieces than are read, the last one is the unread rest.
            for host in dict.fromkeys(hosts if all(hosts) else [""]):
                yield Destination(parameter=parameter, kind=kind, host=host)
        elif kind == "address":
            mail = read_mail_host(text) if words[-1:] in _OF_ANY_ADDRESS else ""
            yield Destination(parameter=parameter, kind=kind, host=mail or read_address_host(text))
        else:
            yield from _find_by_form(parameter, words, text)
            if not self.reads:
                yield from _find_mails(parameter, text)
            if self.is_outward and carries_data(text):
                yield Destination(parameter=parameter, kind="query")


def _find_by_form(parameter: str, words: Sequence[str], text: str) -> Iterator[Destination]:
    """Yield the destinations of a text whose name says nothing: each address with a scheme in it,
    or a text that is a host, a mail address or an IP address as a whole."""
    plain = _undo_disguise(text)
    if plain is None:
        yield Destination(parameter=parameter, kind="address")
        return
    is_plain = plain == text
    joined = _CONTROLS.sub("", plain)
    if "://" in joined:
        if is_plain:
            for host in dict.fromkeys(_list_hosts(text)):
                yield Destination(parameter=parameter, kind="address", host=host)
        if not is_plain or joined.count("://") != text.count("://"):
            yield Destination(parameter=parameter, kind="address")
        return
    whole = joined.strip()
    is_plain = is_plain and whole == text.strip()
    if _OPENED.match(joined):
        yield Destination(parameter=parameter, kind="address")
    elif _MAIL_FORM.fullmatch(whole[:_MAX_WHOLE_CHARACTERS]):
        host = read_mail_host(whole) if is_plain else ""
        yield Destination(parameter=parameter, kind="recipient", host=host)
    elif _is_host(whole[:_MAX_WHOLE_CHARACTERS], words):
        host = read_address_host(whole) if is_plain else ""
        yield Destination(parameter=parameter, kind="address", host=host)


def _find_mails(parameter: str, text: str) -> Iterator[Destination]:
    """Yield the mail addresses in a text that is not too long."""
    if len(text) > _MAX_WHOLE_CHARACTERS or "@" not in text:
        return
    for found in _MAILS_INSIDE.findall(text):
        mail = found.rstrip(".!?")
        if "." in mail.partition("@")[2]:
            yield Destination(parameter=parameter, kind="recipient", host=read_mail_host(mail))


def _split_name(name: str) -> tuple[str, ...]:
    """Return the words of a name. Of a very long one, only its beginning and its end count."""
    if len(name) > _MAX_NAME_CHARACTERS:
        half = _MAX_NAME_CHARACTERS // 2
        name = f"{name[:half]} {name[-half:]}"
    return split_words(name)


def _undo_disguise(text: str) -> str | None:
    """Return the text without full-width characters, percent-encoding and HTML entities, which
    some programs replace before they read an address. Return None for a text with so many
    combining marks that it takes too long."""
    plain = unquote(unquote(text)) if "%" in text else text
    if "&" in plain:
        plain = unquote(_ENTITY.sub(lambda found: unescape(found[0]), plain))
    if plain.isascii():
        return plain
    if has_many_marks(plain):
        return None
    return _IDEOGRAPHIC_DOT.sub(".", unicodedata.normalize("NFKC", plain))


def _list_hosts(text: str) -> Iterator[str]:
    """Yield the host of each address with a scheme in a text. An empty one stands for an unclear
    address, and for too many of them."""
    whole = text.strip()
    if _SCHEME.match(whole):
        yield read_address_host(whole)
        return
    place = -1
    for _ in range(_MAX_ADDRESSES):
        place = text.find("://", place + 1)
        if place < 0:
            return
        scheme = _SCHEME_END.search(text[max(0, place - 31) : place])
        found = _ADDRESS_END.search(text, place, place + _MAX_WHOLE_CHARACTERS)
        end = found.start() if found else min(len(text), place + _MAX_WHOLE_CHARACTERS)
        address = f"{scheme[0] if scheme else ''}{text[place:end].rstrip('.,;:!?)')}"
        yield read_address_host(address) if _ends_clearly(text, end) else ""
    yield ""


def _ends_clearly(text: str, end: int) -> bool:
    """Return whether an address ends here for each program: at a space or the end of the text, and
    not before what continues a host."""
    if end == len(text):
        return True
    return text[end] == " " and not text[end : end + 100].lstrip().startswith(("@", ".", "/", ":"))


def _is_host(text: str, words: Sequence[str]) -> bool:
    if not _DOTTED_NAMES.isdisjoint(words[-2:]):
        return False
    if _IPV4_FORM.fullmatch(text) or _OTHER_HOST_FORM.fullmatch(text):
        return True
    if host := _HOST_FORM.fullmatch(text):
        is_more = len(host[0]) > host.end(1)
        # A file has one dot at most: `notes.md`, and not `secret.example.sh`.
        return is_more or text.count(".") > 1 or host[1].lower() not in _FILE_ENDINGS
    try:
        return ":" in text and bool(ip_address(text.strip("[]")))
    except ValueError:
        return False


# --- searches of the web ---------------------------------------------------------------------
_WEB = word_set("""
    web internet online websearch google bing duckduckgo ddg brave tavily exa serp serper searxng
    kagi perplexity wikipedia arxiv pubmed scholar
    """)
_LOOKING = word_set("""
    search searches searching websearch query queries lookup look find fetch browse crawl scrape ask
    research
    """)
# A product of the same maker: `google_drive_search` searches what is the person's own.
_OWN_PLACES = word_set("""
    drive docs doc sheets calendar mail gmail contacts tasks photos ads analytics cloud storage
    bigquery workspace app apps console tag manager
    """)
_MAX_DESCRIPTION = 2_000
_NEAR_WORDS = 4
_SENTENCE_END = re.compile(r"[.!?;:\n]")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_NUMBER = re.compile(r"\d(?:[ ./()-]{0,3}\d){7}")
_LONG_WORD = re.compile(r"[\w+/=-]{16,}")
_WORDS_ONLY_CHARACTERS = 200
_OPAQUE_CHARACTERS = 32


def looks_outward(tool: ToolFacts) -> bool:
    """Return whether the tool searches the web, by its name or description. A hint that it does
    not counts only from a trusted service."""
    hints = tool.annotations if isinstance(tool.annotations, Mapping) else {}
    if tool.is_trusted and hints.get("openWorldHint") is False:
        return False
    name = split_words(tool.name)
    sentences = _SENTENCE_END.split(tool.description[:_MAX_DESCRIPTION])
    return _says_web_search(name, len(name)) or any(
        _says_web_search(split_words(sentence), _NEAR_WORDS) for sentence in sentences
    )


def _says_web_search(words: Sequence[str], distance: int) -> bool:
    """Return whether a word for searching is this near to a word for the web."""
    looking = [place for place, word in enumerate(words) if word in _LOOKING]
    webs = [place for place, word in enumerate(words) if word in _WEB]
    return any(
        abs(web - look) <= distance and not _OWN_PLACES.intersection(words[web + 1 : web + 2])
        for web in webs[:20]
        for look in looking[:20]
    )


def carries_data(text: str) -> bool:
    """Return whether the text of a search holds more than a few words: an address, a long number
    or word as codes and keys have, or more than 200 characters."""
    if len(text) > _WORDS_ONLY_CHARACTERS or "://" in text or "@" in text:
        return True
    return _NUMBER.search(_DATE.sub(" ", text)) is not None or any(
        map(_is_opaque, _LONG_WORD.findall(text))
    )


def _is_opaque(word: str) -> bool:
    has_both = any(map(str.isdigit, word)) and any(map(str.isalpha, word))
    return has_both or len(word) >= _OPAQUE_CHARACTERS
