"""A service's question as a form: the fields that a person fills in, and the values in what they
sent. Whether those fit, `mcpconfig.questions` decides."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.http import QueryDict
from django.utils.safestring import SafeString

from mcpconfig.results import InputRequest

from .visible import draw_hidden

Json = dict[str, Any]
SECRET = re.compile(r"pass(word|phrase|code)|secret|token|api.?key|\bpin\b|\bcvv?\b", re.IGNORECASE)
TYPES = {
    "email": "email",
    "uri": "url",
    "date": "date",
    "number": "number",
    "integer": "number",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    value: str
    words: SafeString
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field. `name` is what a browser sends it as; `kind` says how it is drawn."""

    name: str
    kind: str
    title: SafeString
    description: SafeString
    value: str = ""
    choices: tuple[Choice, ...] = ()
    is_required: bool = False
    is_chosen: bool = False
    attributes: tuple[tuple[str, str], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request: a form, or an address to open."""

    message: SafeString
    fields: tuple[Field, ...] = ()
    url: str = ""
    host: SafeString = SafeString()
    warnings: tuple[str, ...] = ()


def asked_of(
    request: InputRequest, place: int, sent: QueryDict | None, problems: Mapping[str, str]
) -> Asked:
    """The request as it is shown: with what was typed, where something was sent already."""
    if request.mode == "url":
        return _address(request)
    properties: Json = request.schema.get("properties", {})
    required = request.schema.get("required", [])
    return Asked(
        message=draw_hidden(request.message),
        fields=tuple(
            _field(place, name, said, name in required, sent, problems.get(name, ""))
            for name, said in properties.items()
        ),
        warnings=_secrets(properties),
    )


def _secrets(properties: Json) -> tuple[str, ...]:
    asks = [
        said["title"]
        for name, said in properties.items()
        if SECRET.search(name.replace("_", " ")) or SECRET.search(said["title"])
    ]
    if not asks:
        return ()
    return (f"It asks for “{draw_hidden(asks[0])}”. Services must not ask for secrets in a form.",)


def _address(request: InputRequest) -> Asked:
    parts = urlsplit(request.url)
    host = parts.hostname or ""
    warnings = []
    if "xn--" in host:
        warnings.append("This address is written in look-alike letters of another alphabet.")
    if parts.scheme == "http":
        warnings.append("This address is not encrypted, and leads to your own machine.")
    return Asked(
        message=draw_hidden(request.message),
        url=request.url,
        host=draw_hidden(parts.netloc),
        warnings=tuple(warnings),
    )


def _field(
    place: int, name: str, said: Json, is_required: bool, sent: QueryDict | None, problem: str
) -> Field:
    key = field_name(place, name)
    chosen = sent.getlist(key) if sent is not None else _defaults(said)
    return Field(
        name=key,
        kind=_kind(said),
        title=draw_hidden(said["title"]),
        description=draw_hidden(said.get("description", "")),
        value=chosen[0] if chosen else "",
        choices=tuple(
            Choice(
                value=each["const"],
                words=draw_hidden(each["title"]),
                is_chosen=each["const"] in chosen,
            )
            for each in _choices(said)
        ),
        is_required=is_required,
        is_chosen=bool(chosen),
        attributes=tuple(_attributes(said)),
        problem=problem,
    )


def _defaults(said: Json) -> list[str]:
    """What a service proposes, as a browser would send it."""
    match said.get("default"):
        case bool(is_chosen):
            return ["true"] if is_chosen else []
        case list(several):
            return [str(each) for each in several]
        case None:
            return []
        case one:
            return [str(one)]


def _kind(said: Json) -> str:
    if said["type"] == "array":
        return "several"
    if "oneOf" in said:
        return "one"
    if said["type"] == "boolean":
        return "boolean"
    if said["type"] == "string" and said.get("maxLength", 0) > 200:
        return "long"
    return TYPES.get(said.get("format") or said["type"], "text")


def _choices(said: Json) -> list[Json]:
    found: list[Json] = said.get("oneOf") or said.get("items", {}).get("oneOf", [])
    return found


def _attributes(said: Json) -> list[tuple[str, str]]:
    """What a browser can check and help with by itself; the server checks again."""
    pairs = [
        ("maxlength", said.get("maxLength")),
        ("minlength", said.get("minLength")),
        ("min", said.get("minimum")),
        ("max", said.get("maximum")),
    ]
    found = [(name, f"{value:.15g}") for name, value in pairs if value is not None]
    if said["type"] == "number":
        found.append(("step", "any"))
    if said.get("format") == "date-time":
        found.append(("placeholder", "2026-07-28T12:00:00Z"))
    return found


def field_name(place: int, name: str) -> str:
    """What a field is sent as: names are the service's and could be anything, also ours."""
    return f"v{place}-{name}"


def values_of(request: InputRequest, place: int, sent: QueryDict) -> Json:
    """The values in a sent form, as the schema has them. What was left empty was not given."""
    values: Json = {}
    for name, said in request.schema.get("properties", {}).items():
        key = field_name(place, name)
        kind = _kind(said)
        if kind == "boolean":
            values[name] = key in sent
        elif kind == "several":
            values[name] = sent.getlist(key)
        elif text := str(sent.get(key, "")):
            values[name] = _READ.get(said["type"], str)(text)
    required = request.schema.get("required", [])
    return {name: value for name, value in values.items() if value != [] or name in required}


def _number(text: str) -> int | float | str:
    """A number, or the text as it is, which is then no number."""
    try:
        return int(text) if re.fullmatch(r"[+-]?\d{1,30}", text.strip()) else float(text)
    except ValueError:
        return text


_READ: dict[str, Callable[[str], Any]] = {"number": _number, "integer": _number}
