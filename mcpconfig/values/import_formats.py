"""Service lists of other programs: `mcpServers` of chat clients and editors, and the `server.json`
of the MCP registry. Pure: text in, values out; nothing is fetched."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .results import make_storable

MAX_BYTES = 256 * 1024
MAX_ENTRIES = 100
MAX_PLACEHOLDERS = 200
BRIDGE = gettext_lazy(
    "This is a program (stdio), and Countersign starts no programs. Run it "
    "behind a bridge and add the bridge’s address. See “A server that speaks "
    "over stdio” in docs/services.md."
)
_TRANSPORTS = {
    **dict.fromkeys(("", "http"), "auto"),
    **dict.fromkeys(("streamable-http", "streamableHttp", "streamable_http"), "streamable-http"),
    "sse": "sse",
}
# Values to enter: `${input:token}`, `${env:TOKEN}`, `${TOKEN}`, `${TOKEN:-default}`.
PLACEHOLDER = re.compile(r"\$\{([^{}]{1,200})\}")


class ImportFormatError(Exception):
    """The text contains no readable services; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """A value that a person has to enter. `key` is the text between `${` and `}`."""

    key: str
    label: str = ""
    is_required: bool = True

    @property
    def name(self) -> str:
        """The label for people. The key may hold a default value, which may be a secret."""
        return self.label or self.key.partition(":-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One service of the text, with its placeholders. `label` is its name in the text."""

    label: str
    url: str
    transport: str = "auto"
    headers: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    description: str = ""
    has_oauth: bool = False
    client_id: str = ""
    is_enabled: bool = True
    placeholders: tuple[Placeholder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedEntry:
    """An entry that cannot become a service, and the reason."""

    label: str
    reason: str


ParsedEntry = Entry | RejectedEntry


def parse_services(text: str) -> list[ParsedEntry]:
    """Return the entries in their order; raise ImportFormatError."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise ImportFormatError(_("This is larger than %(size)s KB.") % {"size": MAX_BYTES // 1024})
    value = _parse_json(text)
    if not isinstance(value, dict):
        raise ImportFormatError(_("This JSON has no “mcpServers”, “servers” or “remotes”."))
    found = list(_parse(value))
    if not found:
        raise ImportFormatError(_("There are no services in this text."))
    if len(found) > MAX_ENTRIES:
        raise ImportFormatError(
            _("There are more than %(count)s services. Import them in parts.")
            % {"count": MAX_ENTRIES}
        )
    if sum(len(each.placeholders) for each in found if isinstance(each, Entry)) > MAX_PLACEHOLDERS:
        raise ImportFormatError(
            _("There are more than %(count)s values to enter. Import it in parts.")
            % {"count": MAX_PLACEHOLDERS}
        )
    return found


def _parse_json(text: str) -> Any:
    try:
        value = json.loads(
            text, object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant
        )
        is_sound = make_storable(value) == value
    except (ValueError, RecursionError) as error:
        raise ImportFormatError(
            _("This is not valid JSON. Remove comments and trailing commas.")
        ) from error
    if not is_sound:
        raise ImportFormatError(_("This contains invalid characters."))
    return value


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) != len(pairs):
        names = [name for name, _value in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise ImportFormatError(_("“%(name)s” appears twice. Remove one.") % {"name": doubled[:60]})
    return named


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _parse(value: dict[str, Any]) -> Iterator[ParsedEntry]:
    server = value.get("server", value)
    if isinstance(server, dict) and {"remotes", "packages"} & server.keys():
        return _parse_registry_server(server)
    holders = [each for each in (value, value.get("mcp")) if isinstance(each, dict)]
    lists = [holder.get(key) for holder in holders for key in ("mcpServers", "servers")]
    named = next((each for each in lists if isinstance(each, dict)), None)
    if named is None:
        raise ImportFormatError(_("This JSON has no “mcpServers”, “servers” or “remotes”."))
    asked = {f"input:{key}": label for holder in holders for key, label in _iterate_inputs(holder)}
    return (_parse_client_entry(label, said, asked) for label, said in named.items())


def _iterate_inputs(holder: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the id and the description of each input that an editor would ask for."""
    inputs = holder.get("inputs")
    for each in inputs if isinstance(inputs, list) else []:
        if isinstance(each, dict):
            yield str(each.get("id", "")), _get_text(each, "description")


def _parse_client_entry(label: str, said: Any, asked: Mapping[str, str]) -> ParsedEntry:
    if not isinstance(said, dict):
        return RejectedEntry(label=label, reason=_("It is not an object with a URL."))
    kind = said.get("type") or said.get("transport") or ""
    if "command" in said or kind == "stdio":
        return RejectedEntry(label=label, reason=str(BRIDGE))
    oauth = said.get("oauth")
    entry = Entry(
        label=label,
        url=next(
            (_get_text(said, key) for key in ("url", "serverUrl", "httpUrl") if key in said), ""
        ),
        has_oauth=isinstance(oauth, dict),
        client_id=_get_text(oauth, "clientId") if isinstance(oauth, dict) else "",
        is_enabled=said.get("disabled") is not True,
    )
    return _check_entry(entry, str(kind), said.get("headers", {}), asked)


def _parse_registry_server(server: dict[str, Any]) -> Iterator[ParsedEntry]:
    label = _get_text(server, "name").rpartition("/")[2] or "service"
    remotes = server.get("remotes")
    if not isinstance(remotes, list) or not remotes:
        yield RejectedEntry(label=label, reason=str(BRIDGE))
        return
    for number, remote in enumerate(remotes, start=1):
        name = label if number == 1 else f"{label}-{number}"
        if isinstance(remote, dict):
            yield _parse_remote(name, server, remote)
        else:
            yield RejectedEntry(label=name, reason=_("It is not an object with a URL."))


def _parse_remote(label: str, server: dict[str, Any], remote: dict[str, Any]) -> ParsedEntry:
    listed = remote.get("headers", [])
    given = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    headers, labels, optional = {}, dict(_iterate_variables(remote)), set()
    for each in given:
        name = _get_text(each, "name")
        value = each.get("value") or each.get("default") or f"${{{name}}}"
        labels |= {name: _get_text(each, "description"), **dict(_iterate_variables(each))}
        if each.get("isRequired") is not True and value == f"${{{name}}}":
            optional.add(name)
        headers[name] = _insert_placeholders(value, each)
    entry = Entry(
        label=label,
        url=_insert_placeholders(_get_text(remote, "url"), remote),
        title=_get_text(server, "title"),
        description=_get_text(server, "description"),
    )
    return _check_entry(entry, _get_text(remote, "type"), headers, labels, optional)


def _iterate_variables(holder: dict[str, Any]) -> Iterator[tuple[str, str]]:
    variables = holder.get("variables")
    for name, said in variables.items() if isinstance(variables, dict) else ():
        yield name, _get_text(said, "description") if isinstance(said, dict) else ""


def _insert_placeholders(text: Any, holder: dict[str, Any]) -> Any:
    """Replace the variables of the registry format, `{name}`, by `${name}`."""
    for name, _label in _iterate_variables(holder) if isinstance(text, str) else ():
        text = re.sub(rf"(?<!\$)\{{{re.escape(name)}\}}", lambda found: f"${found[0]}", text)
    return text


def _check_entry(
    entry: Entry,
    kind: str,
    headers: Any,
    labels: Mapping[str, str],
    optional: set[str] | None = None,
) -> ParsedEntry:
    """Return the entry with transport, headers and placeholders, or a RejectedEntry."""
    if not entry.url:
        return RejectedEntry(label=entry.label, reason=_("It has no URL."))
    if kind not in _TRANSPORTS:
        reason = _("Its type “%(type)s” is none of “http”, “streamable-http” and “sse”.") % {
            "type": kind[:40]
        }
        return RejectedEntry(label=entry.label, reason=reason)
    if not _are_headers(headers):
        reason = _("Its headers must be an object of names and one-line texts.")
        return RejectedEntry(label=entry.label, reason=reason)
    keys = dict.fromkeys(
        key for text in (entry.url, *headers.values()) for key in PLACEHOLDER.findall(text)
    )
    placeholders = tuple(
        Placeholder(key=key, label=labels.get(key, ""), is_required=key not in (optional or ()))
        for key in keys
    )
    return replace(entry, transport=_TRANSPORTS[kind], headers=headers, placeholders=placeholders)


def _are_headers(value: Any) -> bool:
    """A line break in a value would start another header."""
    return isinstance(value, dict) and all(
        name and isinstance(text, str) and f"{name}{text}".isprintable()
        for name, text in value.items()
    )


def _get_text(holder: Mapping[str, Any], key: str) -> str:
    value = holder.get(key)
    return value.strip() if isinstance(value, str) else ""
