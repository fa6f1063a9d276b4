"""What services ask people, read within bounds and brought into one shape, and the values of a form
checked against what was asked for. Knows nothing of connections."""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from .errors import OperationError
from .limits import LIMITS
from .results import InputRequest, storable

Json = dict[str, Any]

_SHORT = 255
_FORMATS = ("email", "uri", "date", "date-time")
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
# A URL is shown whole: what looks like another one, or runs the wrong way round, is not taken in.
_PLAIN = re.compile(r"[\x21-\x5b\x5d-\x7e]+")


def requests_of(asked: Any) -> tuple[InputRequest, ...]:
    """The questions that a service sent by their keys, or an OperationError where one of them
    cannot be put to anybody: a question for a model, a form that is none, a URL that leads inside.

    Nothing of what is beyond the bounds is cut: a person must see all that he answers to.
    """
    if asked is None:
        return ()
    if not isinstance(asked, Mapping) or len(asked) > LIMITS.questions:
        raise unanswerable("It asks too much at once.")
    return tuple(_request(key, said) for key, said in asked.items())


def unanswerable(why: str) -> OperationError:
    """Definite: the service has not gone on with the call, and will not."""
    return OperationError(
        kind="protocol",
        message=f"The service asks for something that is not answered here. {why}",
        hint="Tell whoever runs the service; the trace shows what it asked.",
        is_definite=True,
    )


def _request(key: Any, said: Any) -> InputRequest:
    match said:
        case {"method": "elicitation/create", "params": {"message": str(message)} as params}:
            mode = params.get("mode", "form")
        case _:
            raise unanswerable("Only questions to a person are.")
    if not _is_text(key, _SHORT) or not _is_text(message, LIMITS.question_characters):
        raise unanswerable("It is too long.")
    if mode == "url" and is_presentable(params.get("url")):
        return InputRequest(key=key, mode="url", message=message, url=params["url"])
    if mode == "form":
        schema = _form(params.get("requestedSchema"))
        return InputRequest(key=key, mode="form", message=message, schema=schema)
    raise unanswerable("It names an address that nobody should open, or asks in an unknown way.")


def is_presentable(url: Any) -> bool:
    """Whether a URL may be shown to be opened: https, or plain http on the reader's own machine."""
    if not isinstance(url, str) or len(url) > LIMITS.uri_characters or not _PLAIN.fullmatch(url):
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


def _form(said: Any) -> Json:
    """The form as one flat object. Each field has a title, choices are always `oneOf`."""
    match said:
        case {"type": "object", "properties": dict(properties)}:
            required = said.get("required") or []
        case _:
            raise unanswerable("It is not a form.")
    if len(properties) > LIMITS.form_fields or not isinstance(required, list):
        raise unanswerable("The form is too long.")
    return {
        "type": "object",
        "properties": {name: _field(name, field) for name, field in properties.items()},
        "required": [name for name in properties if name in required],
    }


def _field(name: str, said: Any) -> Json:
    if not _is_text(name, _SHORT) or not isinstance(said, dict):
        raise unanswerable("The form has a field without a name or a kind.")
    match said:
        case {"type": "array", "items": dict(items)}:
            field: Json = {"type": "array", "items": {"oneOf": _choices(items)}}
        case {"type": "string"} if any(word in said for word in ("enum", "oneOf")):
            field = {"type": "string", "oneOf": _choices(said)}
        case {"type": "string" | "number" | "integer" | "boolean" as kind}:
            field = {"type": kind}
        case _:
            raise unanswerable("The form has a field of an unknown kind.")
    field |= {word: said[word] for word in _said_of(field) if _TAKEN[word](said.get(word))}
    field.setdefault("title", name)
    if "default" in said and not _problem(field, said["default"]):
        field["default"] = said["default"]
    return field


def _choices(said: Json) -> list[Json]:
    """What can be chosen, each with the words for it, from any of the ways in which it is said."""
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
        raise unanswerable("The form offers nothing to choose from, or too much.")
    return [_choice(each) for each in listed]


def _choice(said: Any) -> Json:
    match said:
        case {"const": str(value)}:
            label = said.get("title", value)
            if _is_text(value, _SHORT, least=0) and _is_text(label, _SHORT, least=0):
                return {"const": value, "title": label or value}
    raise unanswerable("The form offers a choice that cannot be read.")


def _is_text(said: Any, characters: int, *, least: int = 1) -> bool:
    return (
        isinstance(said, str) and least <= len(said) <= characters and bool(storable(said) == said)
    )


def _is_number(said: Any) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool) and abs(said) < 1e300


def _is_count(said: Any) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and 0 <= said <= 1_000_000


# What may be said about a field, and how it must be said to count. Patterns do not: matching one
# that a service wrote may take for ever.
_TAKEN: dict[str, Callable[[Any], bool]] = {
    "title": lambda said: _is_text(said, _SHORT),
    "description": lambda said: _is_text(said, LIMITS.question_characters),
    "format": lambda said: said in _FORMATS,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minimum": _is_number,
    "maximum": _is_number,
    "minItems": _is_count,
    "maxItems": _is_count,
}
_SAID_OF = {
    "string": ("format", "minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}


def _said_of(field: Json) -> tuple[str, ...]:
    own = () if "oneOf" in field else _SAID_OF[field["type"]]
    return ("title", "description", *own)


def problems_of(request: InputRequest, content: Mapping[str, Any] | None) -> dict[str, str]:
    """What is wrong with the values of a form, in a sentence for each field; nothing, if they may
    be sent. Values that nobody asked for are wrong, too."""
    fields: Json = request.schema.get("properties", {})
    given = dict(content or {})
    problems = {name: "Nobody asked for this." for name in given if name not in fields}
    for name, field in fields.items():
        problem = _problem(field, given[name]) if name in given else ""
        if name not in given and name in request.schema.get("required", []):
            problem = "This is needed."
        if problem:
            problems[name] = problem
    return problems


def _problem(field: Json, value: Any) -> str:
    match field["type"]:
        case "boolean":
            return "" if isinstance(value, bool) else "This is yes or no."
        case "number" | "integer" as kind:
            return _problem_of_number(field, value, is_whole=kind == "integer")
        case "array":
            return _problem_of_list(field, value)
    return _problem_of_text(field, value)


def _problem_of_number(field: Json, value: Any, *, is_whole: bool) -> str:
    if not _is_number(value) or (is_whole and value != int(value)):
        return "This is a whole number." if is_whole else "This is a number."
    if value < field.get("minimum", value):
        return f"At least {field['minimum']:g}."
    if value > field.get("maximum", value):
        return f"At most {field['maximum']:g}."
    return ""


def _problem_of_list(field: Json, value: Any) -> str:
    offered = [choice["const"] for choice in field["items"]["oneOf"]]
    if not isinstance(value, list) or any(each not in offered for each in value):
        return "Choose from what is offered."
    if len(value) != len(set(value)):
        return "Choose each only once."
    if len(value) < field.get("minItems", 0):
        return f"Choose at least {field['minItems']}."
    if len(value) > field.get("maxItems", len(value)):
        return f"Choose at most {field['maxItems']}."
    return ""


def _problem_of_text(field: Json, value: Any) -> str:
    if not isinstance(value, str) or storable(value) != value:
        return "This is a text."
    if "oneOf" in field:
        is_offered = any(choice["const"] == value for choice in field["oneOf"])
        return "" if is_offered else "Choose from what is offered."
    if len(value) < field.get("minLength", 0):
        return f"At least {field['minLength']} characters."
    if len(value) > field.get("maxLength", len(value)):
        return f"At most {field['maxLength']} characters."
    return _problem_of_format(field.get("format"), value)


def _problem_of_format(kind: str | None, value: str) -> str:
    match kind:
        case "email":
            return "" if _EMAIL.fullmatch(value) else "This is an e-mail address."
        case "uri":
            return "" if _URI.fullmatch(value) else "This is an address such as https://…"
        case "date":
            return "" if _parses(date.fromisoformat, value) else "This is a date: 2026-07-28."
        case "date-time":
            is_time = "T" in value and _parses(datetime.fromisoformat, value)
            return "" if is_time else "This is a date and a time: 2026-07-28T12:00:00Z."
    return ""


def _parses(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True
