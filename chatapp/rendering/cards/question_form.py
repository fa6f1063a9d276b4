"""A question of a service as a form: the fields that a person fills in, and the values of a posted
form. `mcpconfig.values.questions` validates them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.http import QueryDict
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from chatapp.rendering.hidden_characters import draw_hidden
from mcpconfig.values.results import InputRequest

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
    """One field. `name` is the name that a browser sends; `kind` says how it is drawn."""

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
class RequestForm:
    """One request: a form, or an address to open."""

    message: SafeString
    fields: tuple[Field, ...] = ()
    url: str = ""
    host: SafeString = SafeString()
    warnings: tuple[str, ...] = ()


def build_request_form(
    request: InputRequest, place: int, sent: QueryDict | None, problems: Mapping[str, str]
) -> RequestForm:
    """Return the request as a form, filled in with what was sent before."""
    if request.mode == "url":
        return _build_link(request)
    properties: Json = request.schema.get("properties", {})
    required = request.schema.get("required", [])
    return RequestForm(
        message=draw_hidden(request.message),
        fields=tuple(
            _build_field(place, name, said, name in required, sent, problems.get(name, ""))
            for name, said in properties.items()
        ),
        warnings=_list_warnings(properties),
    )


def _list_warnings(properties: Json) -> tuple[str, ...]:
    asks = [
        said["title"]
        for name, said in properties.items()
        if SECRET.search(name.replace("_", " ")) or SECRET.search(said["title"])
    ]
    if not asks:
        return ()
    warning = _("This form asks for “%(field)s”. Services must not ask for secrets in a form.")
    return (warning % {"field": draw_hidden(asks[0])},)


def _build_link(request: InputRequest) -> RequestForm:
    parts = urlsplit(request.url)
    host = parts.hostname or ""
    warnings = []
    if "xn--" in host:
        warnings.append(_("This address contains look-alike letters of another alphabet."))
    if parts.scheme == "http":
        warnings.append(_("This address is not encrypted and leads to your own computer."))
    return RequestForm(
        message=draw_hidden(request.message),
        url=request.url,
        host=draw_hidden(parts.netloc),
        warnings=tuple(warnings),
    )


def _build_field(
    place: int, name: str, said: Json, is_required: bool, sent: QueryDict | None, problem: str
) -> Field:
    key = make_field_name(place, name)
    chosen = sent.getlist(key) if sent is not None else _read_defaults(said)
    return Field(
        name=key,
        kind=_choose_kind(said),
        title=draw_hidden(said["title"]),
        description=draw_hidden(said.get("description", "")),
        value=chosen[0] if chosen else "",
        choices=tuple(
            Choice(
                value=each["const"],
                words=draw_hidden(each["title"]),
                is_chosen=each["const"] in chosen,
            )
            for each in _list_choices(said)
        ),
        is_required=is_required,
        is_chosen=bool(chosen),
        attributes=tuple(_build_attributes(said)),
        problem=problem,
    )


def _read_defaults(said: Json) -> list[str]:
    """Return the default of a service in the form in which a browser would send it."""
    match said.get("default"):
        case bool(is_chosen):
            return ["true"] if is_chosen else []
        case list(several):
            return [str(each) for each in several]
        case None:
            return []
        case one:
            return [str(one)]


def _choose_kind(said: Json) -> str:
    if said["type"] == "array":
        return "several"
    if "oneOf" in said:
        return "one"
    if said["type"] == "boolean":
        return "boolean"
    if said["type"] == "string" and said.get("maxLength", 0) > 200:
        return "long"
    return TYPES.get(said.get("format") or said["type"], "text")


def _list_choices(said: Json) -> list[Json]:
    found: list[Json] = said.get("oneOf") or said.get("items", {}).get("oneOf", [])
    return found


def _build_attributes(said: Json) -> list[tuple[str, str]]:
    """Return attributes for checks in the browser; the server checks again."""
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


def make_field_name(place: int, name: str) -> str:
    """Return the name a field is sent as: names of a service could equal those of our fields."""
    return f"v{place}-{name}"


def read_values(request: InputRequest, place: int, sent: QueryDict) -> Json:
    """Return the values of a posted form by the names of the schema, without empty ones."""
    values: Json = {}
    for name, said in request.schema.get("properties", {}).items():
        key = make_field_name(place, name)
        kind = _choose_kind(said)
        if kind == "boolean":
            values[name] = key in sent
        elif kind == "several":
            values[name] = sent.getlist(key)
        elif text := str(sent.get(key, "")):
            values[name] = _PARSERS.get(said["type"], str)(text)
    required = request.schema.get("required", [])
    return {name: value for name, value in values.items() if value != [] or name in required}


def _parse_number(text: str) -> int | float | str:
    """Return the number, or the unchanged text if it is not a number."""
    try:
        return int(text) if re.fullmatch(r"[+-]?\d{1,30}", text.strip()) else float(text)
    except ValueError:
        return text


_PARSERS: dict[str, Callable[[str], Any]] = {"number": _parse_number, "integer": _parse_number}
