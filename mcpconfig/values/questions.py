"""Services' questions to people: parsed within limits, and the values of a form checked against the
question."""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .errors import OperationError
from .limits import LIMITS
from .results import InputRequest, make_storable
from .secret_fields import NEVER, find_secret_field

Json = dict[str, Any]

_MAX_NAME_CHARACTERS = 255
_FORMATS = ("email", "uri", "date", "date-time")
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
# A URL is shown whole. One with characters that could make it look like another, or reverse its
# direction, is refused.
_PLAIN_URL = re.compile(r"[\x21-\x5b\x5d-\x7e]+")


def parse_requests(asked: Any) -> tuple[InputRequest, ...]:
    """Return the questions that a service sent, by their keys. Raise OperationError if one of them
    cannot be shown to a person: a question for a model, an invalid form, a URL to a private place.

    Nothing beyond the limits is cut, because a person must see all of what they answer.
    """
    if asked is None:
        return ()
    if not isinstance(asked, Mapping) or len(asked) > LIMITS.questions:
        raise unanswerable_error(_("The service asks too many questions at once."))
    return tuple(_parse_request(key, said) for key, said in asked.items())


def unanswerable_error(why: str) -> OperationError:
    """Definite: the service has not continued the call, and will not."""
    return OperationError(
        kind="protocol",
        message=_("The service asks for something that you can’t answer here. %(reason)s")
        % {"reason": why},
        hint=_("Report it to the service’s operator. The trace shows what it asked."),
        is_definite=True,
    )


def _parse_request(key: Any, said: Any) -> InputRequest:
    match said:
        case {"method": "elicitation/create", "params": {"message": str(message)} as params}:
            mode = params.get("mode", "form")
        case _:
            raise unanswerable_error(_("Services can only ask questions to people."))
    if not _is_text(key, _MAX_NAME_CHARACTERS) or not _is_text(message, LIMITS.question_characters):
        raise unanswerable_error(_("The question is too long."))
    if mode == "url" and is_presentable(params.get("url")):
        return InputRequest(key=key, mode="url", message=message, url=params["url"])
    if mode == "form":
        schema = _parse_form(params.get("requestedSchema"))
        if title := find_secret_field(schema["properties"], message):
            raise unanswerable_error(
                _("The service asks for “%(field)s”. %(rule)s") % {"field": title, "rule": NEVER}
            )
        return InputRequest(key=key, mode="form", message=message, schema=schema)
    raise unanswerable_error(
        _("The service asks you to open an unsafe address, or asks in an unknown way.")
    )


def is_presentable(url: Any) -> bool:
    """Whether a person may be offered to open this URL: https, or plain http on the reader's own
    machine."""
    if (
        not isinstance(url, str)
        or len(url) > LIMITS.uri_characters
        or not _PLAIN_URL.fullmatch(url)
    ):
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_open = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))
    return is_open and bool(host) and has_port and "@" not in parts.netloc


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parse_form(said: Any) -> Json:
    """Return the form as one flat object. Each field has a title, and choices are always
    `oneOf`."""
    match said:
        case {"type": "object", "properties": dict(properties)}:
            required = said.get("required") or []
        case _:
            raise unanswerable_error(_("The question is not a form."))
    if len(properties) > LIMITS.form_fields or not isinstance(required, list):
        raise unanswerable_error(_("The form is too long."))
    return {
        "type": "object",
        "properties": {name: _parse_field(name, field) for name, field in properties.items()},
        "required": [name for name in properties if name in required],
    }


def _parse_field(name: str, said: Any) -> Json:
    if not _is_text(name, _MAX_NAME_CHARACTERS) or not isinstance(said, dict):
        raise unanswerable_error(_("The form has a field without a name or a type."))
    match said:
        case {"type": "array", "items": dict(items)}:
            field: Json = {"type": "array", "items": {"oneOf": _parse_choices(items)}}
        case {"type": "string"} if any(word in said for word in ("enum", "oneOf")):
            field = {"type": "string", "oneOf": _parse_choices(said)}
        case {"type": "string" | "number" | "integer" | "boolean" as kind}:
            field = {"type": kind}
        case _:
            raise unanswerable_error(_("The form has a field of an unknown type."))
    field |= {
        word: said[word] for word in _list_keywords(field) if _KEYWORD_CHECKS[word](said.get(word))
    }
    field.setdefault("title", name)
    if "default" in said and not _find_problem(field, said["default"]):
        field["default"] = said["default"]
    return field


def _parse_choices(said: Json) -> list[Json]:
    """Return the choices with their labels, from any of the forms that the protocol allows."""
    listed = said.get("oneOf", said.get("anyOf"))
    if listed is None:
        values, names = said.get("enum"), said.get("enumNames")
        if not isinstance(values, list):
            values = []
        if not isinstance(names, list) or len(names) != len(values):
            names = values
        listed = [
            {"const": value, "title": label} for value, label in zip(values, names, strict=True)
        ]
    if not isinstance(listed, list) or not 0 < len(listed) <= LIMITS.form_options:
        raise unanswerable_error(_("The form offers no choices, or too many."))
    return [_parse_choice(each) for each in listed]


def _parse_choice(said: Any) -> Json:
    match said:
        case {"const": str(value)}:
            label = said.get("title", value)
            if _is_text(value, _MAX_NAME_CHARACTERS, least=0) and _is_text(
                label, _MAX_NAME_CHARACTERS, least=0
            ):
                return {"const": value, "title": label or value}
    raise unanswerable_error(_("The form has a choice that can’t be read."))


def _is_text(said: Any, characters: int, *, least: int = 1) -> bool:
    return (
        isinstance(said, str)
        and least <= len(said) <= characters
        and bool(make_storable(said) == said)
    )


def _is_number(said: Any) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool) and abs(said) < 1e300


def _is_count(said: Any) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and 0 <= said <= 1_000_000


# The keywords of a field, and the check that a value must pass to be used. Patterns are not used:
# matching an untrusted pattern may never end.
_KEYWORD_CHECKS: dict[str, Callable[[Any], bool]] = {
    "title": lambda said: _is_text(said, _MAX_NAME_CHARACTERS),
    "description": lambda said: _is_text(said, LIMITS.question_characters),
    "format": lambda said: said in _FORMATS,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minimum": _is_number,
    "maximum": _is_number,
    "minItems": _is_count,
    "maxItems": _is_count,
}
_TYPE_KEYWORDS = {
    "string": ("format", "minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}


def _list_keywords(field: Json) -> tuple[str, ...]:
    own = () if "oneOf" in field else _TYPE_KEYWORDS[field["type"]]
    return ("title", "description", *own)


def find_problems(request: InputRequest, content: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a sentence for each field of a form whose value is wrong; empty if the values may be
    sent. Values that the form does not ask for are wrong, too."""
    fields: Json = request.schema.get("properties", {})
    given = dict(content or {})
    problems = {name: _("This field is not in the form.") for name in given if name not in fields}
    for name, field in fields.items():
        problem = _find_problem(field, given[name]) if name in given else ""
        if name not in given and name in request.schema.get("required", []):
            problem = _("This field is required.")
        if problem:
            problems[name] = problem
    return problems


def _find_problem(field: Json, value: Any) -> str:
    match field["type"]:
        case "boolean":
            return "" if isinstance(value, bool) else _("Enter yes or no.")
        case "number" | "integer" as kind:
            return _find_number_problem(field, value, is_whole=kind == "integer")
        case "array":
            return _find_list_problem(field, value)
    return _find_text_problem(field, value)


def _find_number_problem(field: Json, value: Any, *, is_whole: bool) -> str:
    if not _is_number(value) or (is_whole and value != int(value)):
        return _("Enter a whole number.") if is_whole else _("Enter a number.")
    if value < field.get("minimum", value):
        return _("At least %(minimum)s.") % {"minimum": f"{field['minimum']:g}"}
    if value > field.get("maximum", value):
        return _("At most %(maximum)s.") % {"maximum": f"{field['maximum']:g}"}
    return ""


def _find_list_problem(field: Json, value: Any) -> str:
    offered = [choice["const"] for choice in field["items"]["oneOf"]]
    if not isinstance(value, list) or any(each not in offered for each in value):
        return _("Choose one of the options.")
    if len(value) != len(set(value)):
        return _("Choose each option only once.")
    if len(value) < field.get("minItems", 0):
        return _("Choose at least %(count)s.") % {"count": field["minItems"]}
    if len(value) > field.get("maxItems", len(value)):
        return _("Choose at most %(count)s.") % {"count": field["maxItems"]}
    return ""


def _find_text_problem(field: Json, value: Any) -> str:
    if not isinstance(value, str) or make_storable(value) != value:
        return _("Enter text.")
    if "oneOf" in field:
        is_offered = any(choice["const"] == value for choice in field["oneOf"])
        return "" if is_offered else _("Choose one of the options.")
    if len(value) < field.get("minLength", 0):
        return ngettext(
            "At least %(count)s character.", "At least %(count)s characters.", field["minLength"]
        ) % {"count": field["minLength"]}
    if len(value) > field.get("maxLength", len(value)):
        return ngettext(
            "At most %(count)s character.", "At most %(count)s characters.", field["maxLength"]
        ) % {"count": field["maxLength"]}
    return _find_format_problem(field.get("format"), value)


def _find_format_problem(kind: str | None, value: str) -> str:
    match kind:
        case "email":
            return "" if _EMAIL.fullmatch(value) else _("Enter an email address.")
        case "uri":
            return "" if _URI.fullmatch(value) else _("Enter an address, such as https://…")
        case "date":
            return (
                ""
                if _is_parsed_by(date.fromisoformat, value)
                else _("Enter a date, such as 2026-07-28.")
            )
        case "date-time":
            is_time = "T" in value and _is_parsed_by(datetime.fromisoformat, value)
            return "" if is_time else _("Enter a date and a time, such as 2026-07-28T12:00:00Z.")
    return ""


def _is_parsed_by(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True
