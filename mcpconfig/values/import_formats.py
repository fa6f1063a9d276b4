"""Services as other programs write them down: `mcpServers` of chat clients and editors, and the
`server.json` of the MCP registry. Pure: text in, values out; nothing is looked up anywhere."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from .results import storable

MOST_BYTES = 256 * 1024
MOST_ENTRIES = 100
MOST_BLANKS = 200
BRIDGE = (
    "It is a program to be started (stdio), and none is ever started here. Run it behind a bridge, "
    "and add the bridge's address: see “A server that speaks over stdio” in docs/services.md."
)
_TRANSPORTS = {
    **dict.fromkeys(("", "http"), "auto"),
    **dict.fromkeys(("streamable-http", "streamableHttp", "streamable_http"), "streamable-http"),
    "sse": "sse",
}
# What somebody has to enter: `${input:token}`, `${env:TOKEN}`, `${TOKEN}`, `${TOKEN:-default}`.
BLANK = re.compile(r"\$\{([^{}]{1,200})\}")


class Unreadable(Exception):
    """The text holds no services that can be read; its sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """A value that a person has to enter. `key` is what stands between `${` and `}`."""

    key: str
    label: str = ""
    is_required: bool = True

    @property
    def name(self) -> str:
        """What it is called for people: its key may hold a default, which may be a secret."""
        return self.label or self.key.partition(":-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One service as it was written down, with its blanks. `label` is its name there."""

    label: str
    url: str
    transport: str = "auto"
    headers: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    description: str = ""
    has_oauth: bool = False
    client_id: str = ""
    is_enabled: bool = True
    blanks: tuple[Blank, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """One that cannot be a service here, and why."""

    label: str
    reason: str


Found = Entry | Refused


def found_in(text: str) -> list[Found]:
    """What is written down, in its order; raises Unreadable."""
    if len(text.encode(errors="surrogatepass")) > MOST_BYTES:
        raise Unreadable(f"This is larger than {MOST_BYTES // 1024} KB.")
    value = _json(text)
    if not isinstance(value, dict):
        raise Unreadable("This is JSON, but no object with “mcpServers”, “servers” or “remotes”.")
    found = list(_read(value))
    if not found:
        raise Unreadable("No services are written down here.")
    if len(found) > MOST_ENTRIES:
        raise Unreadable(f"These are more than {MOST_ENTRIES} services. Import them in parts.")
    if sum(len(each.blanks) for each in found if isinstance(each, Entry)) > MOST_BLANKS:
        raise Unreadable(f"More than {MOST_BLANKS} values are to be entered. Import it in parts.")
    return found


def _json(text: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_named_once, parse_constant=_no_number)
        is_sound = storable(value) == value
    except (ValueError, RecursionError) as error:
        raise Unreadable(
            "This is not JSON. Comments and trailing commas are none either."
        ) from error
    if not is_sound:
        raise Unreadable("There are characters in it that no text can have.")
    return value


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) != len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"“{doubled[:60]}” is there twice, so one of them would be lost.")
    return named


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _read(value: dict[str, Any]) -> Iterator[Found]:
    server = value.get("server", value)
    if isinstance(server, dict) and {"remotes", "packages"} & server.keys():
        return _of_registry(server)
    holders = [each for each in (value, value.get("mcp")) if isinstance(each, dict)]
    lists = [holder.get(key) for holder in holders for key in ("mcpServers", "servers")]
    named = next((each for each in lists if isinstance(each, dict)), None)
    if named is None:
        raise Unreadable("There is no “mcpServers”, “servers” or “remotes” in it.")
    asked = {f"input:{key}": label for holder in holders for key, label in _inputs(holder)}
    return (_of_client(label, said, asked) for label, said in named.items())


def _inputs(holder: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What an editor would ask for: each input's id and what it says of it."""
    inputs = holder.get("inputs")
    for each in inputs if isinstance(inputs, list) else []:
        if isinstance(each, dict):
            yield str(each.get("id", "")), _text(each, "description")


def _of_client(label: str, said: Any, asked: Mapping[str, str]) -> Found:
    if not isinstance(said, dict):
        return Refused(label=label, reason="It is no object with a URL.")
    kind = said.get("type") or said.get("transport") or ""
    if "command" in said or kind == "stdio":
        return Refused(label=label, reason=BRIDGE)
    oauth = said.get("oauth")
    entry = Entry(
        label=label,
        url=next((_text(said, key) for key in ("url", "serverUrl", "httpUrl") if key in said), ""),
        has_oauth=isinstance(oauth, dict),
        client_id=_text(oauth, "clientId") if isinstance(oauth, dict) else "",
        is_enabled=said.get("disabled") is not True,
    )
    return _checked(entry, str(kind), said.get("headers", {}), asked)


def _of_registry(server: dict[str, Any]) -> Iterator[Found]:
    label = _text(server, "name").rpartition("/")[2] or "service"
    remotes = server.get("remotes")
    if not isinstance(remotes, list) or not remotes:
        yield Refused(label=label, reason=BRIDGE)
        return
    for number, remote in enumerate(remotes, start=1):
        name = label if number == 1 else f"{label}-{number}"
        if isinstance(remote, dict):
            yield _remote(name, server, remote)
        else:
            yield Refused(label=name, reason="It is no object with a URL.")


def _remote(label: str, server: dict[str, Any], remote: dict[str, Any]) -> Found:
    listed = remote.get("headers", [])
    given = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    headers, labels, optional = {}, dict(_variables(remote)), set()
    for each in given:
        name = _text(each, "name")
        value = each.get("value") or each.get("default") or f"${{{name}}}"
        labels |= {name: _text(each, "description"), **dict(_variables(each))}
        if each.get("isRequired") is not True and value == f"${{{name}}}":
            optional.add(name)
        headers[name] = _with_blanks(value, each)
    entry = Entry(
        label=label,
        url=_with_blanks(_text(remote, "url"), remote),
        title=_text(server, "title"),
        description=_text(server, "description"),
    )
    return _checked(entry, _text(remote, "type"), headers, labels, optional)


def _variables(holder: dict[str, Any]) -> Iterator[tuple[str, str]]:
    variables = holder.get("variables")
    for name, said in variables.items() if isinstance(variables, dict) else ():
        yield name, _text(said, "description") if isinstance(said, dict) else ""


def _with_blanks(text: Any, holder: dict[str, Any]) -> Any:
    """The registry writes its variables as `{name}`."""
    for name, _ in _variables(holder) if isinstance(text, str) else ():
        text = re.sub(rf"(?<!\$)\{{{re.escape(name)}\}}", lambda found: f"${found[0]}", text)
    return text


def _checked(
    entry: Entry,
    kind: str,
    headers: Any,
    labels: Mapping[str, str],
    optional: set[str] | None = None,
) -> Found:
    """The entry with its transport, headers and blanks, if it can be one of ours."""
    if not entry.url:
        return Refused(label=entry.label, reason="It has no URL.")
    if kind not in _TRANSPORTS:
        reason = f"Its type “{kind[:40]}” is neither “http”, “streamable-http” nor “sse”."
        return Refused(label=entry.label, reason=reason)
    if not _are_headers(headers):
        reason = "Its headers are no object of names and texts, each of one line."
        return Refused(label=entry.label, reason=reason)
    keys = dict.fromkeys(
        key for text in (entry.url, *headers.values()) for key in BLANK.findall(text)
    )
    blanks = tuple(
        Blank(key=key, label=labels.get(key, ""), is_required=key not in (optional or ()))
        for key in keys
    )
    return replace(entry, transport=_TRANSPORTS[kind], headers=headers, blanks=blanks)


def _are_headers(value: Any) -> bool:
    """A line end in a value would be a header of its own."""
    return isinstance(value, dict) and all(
        name and isinstance(text, str) and f"{name}{text}".isprintable()
        for name, text in value.items()
    )


def _text(holder: Mapping[str, Any], key: str) -> str:
    value = holder.get(key)
    return value.strip() if isinstance(value, str) else ""
