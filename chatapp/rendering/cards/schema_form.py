"""A tool's input schema as a form: a field for each value, and the JSON that the filled-in fields
make. Whether it fits the schema, others decide; what a field cannot say is written as exact JSON.

The schema is a service's own word: whatever is not understood becomes a field for JSON.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.safestring import SafeString

from .visible import draw_hidden

Json = Any
Kind = Literal["text", "line", "number", "choice", "json"]

MOST_FIELDS = 60
MOST_CHOICES = 200
MOST_REFERENCES = 8
SHORT_CHARACTERS = 120
_SAID = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list, as JSON",
    "object": "object, as JSON",
}
_INPUT_TYPES = {"email": "email", "uri": "url", "date": "date"}


class Misread(ValueError):
    """Fields and JSON cannot be made of one another. The text is for the person; `problems` has a
    sentence for each field, by its key, that cannot be read."""

    def __init__(self, sentence: str, problems: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.problems = dict(problems or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`value` is the JSON of what is chosen."""

    value: str
    words: SafeString


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value. `key` is what a browser sends it as: names could be anything, also ours."""

    key: str
    name: str
    kind: Kind
    label: SafeString
    title: SafeString
    description: SafeString
    about: SafeString
    is_required: bool
    input_type: str = "text"
    choices: tuple[Choice, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()


def fields_of(schema: Json) -> list[Field]:
    """The fields of the schema's properties, required ones first; none where it cannot be one."""
    properties = _dict(schema).get("properties")
    if not isinstance(properties, dict) or len(properties) > MOST_FIELDS:
        return []
    required = _list(_dict(schema).get("required"))
    ordered = sorted(properties, key=lambda name: name not in required)
    return [
        _field(f"v{place}", name, _plain(properties[name], schema), name in required)
        for place, name in enumerate(ordered)
    ]


def json_of(fields: list[Field], typed: Mapping[str, str]) -> str:
    """The JSON object that the fields make; an empty field is not given. Raises
    Misread."""
    parts, problems = [], {}
    for field in fields:
        text = typed.get(field.key, "").replace("\r\n", "\n")
        if not text.strip() and (field.kind not in ("text", "line") or not text):
            continue
        try:
            parts.append(f"{json.dumps(field.name)}: {_read(field, text)}")
        except (ValueError, RecursionError):
            problems[field.key] = _WRONG[field.kind]
    if problems:
        raise Misread("Some of the values cannot be read.", problems)
    return "{" + ", ".join(parts) + "}"


def typed_of(fields: list[Field], arguments: str) -> dict[str, str]:
    """What would be typed into the fields to make these arguments. Raises Misread where they hold
    something that no field can say."""
    values = json.loads(arguments)
    by_name = {field.name: field for field in fields}
    typed = {}
    for name, value in values.items():
        text = _typed(by_name[name], value) if name in by_name else None
        if text is None:
            raise Misread(f"The form has no field that can hold this value of “{name}”.")
        typed[by_name[name].key] = text
    return typed


def _typed(field: Field, value: Json) -> str | None:
    """None where the field would make something else of it."""
    if field.kind in ("text", "line"):
        is_same = isinstance(value, str) and value and (field.kind == "text" or "\n" not in value)
        return value if is_same and _would_keep(field, str(value)) else None
    if field.kind == "choice":
        text = json.dumps(value)
        return text if text in {choice.value for choice in field.choices} else None
    if field.kind == "number" and not (isinstance(value, int | float) and value is not True):
        return None
    return json.dumps(value, ensure_ascii=False, indent=2 if field.kind == "json" else None)


def _would_keep(field: Field, value: str) -> bool:
    """Whether a browser's field of this type holds the value: it empties a date that is none."""
    return field.input_type != "date" or re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) is not None


def _read(field: Field, text: str) -> str:
    """The field's value as JSON. What is JSON already stays letter by letter, so that nothing of it
    (a number too long, a name that stands twice) is lost before it is checked."""
    if field.kind in ("text", "line"):
        return json.dumps(text)
    value = json.loads(text)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if field.kind == "number" and not is_number:
        raise ValueError
    if field.kind == "choice" and text not in {choice.value for choice in field.choices}:
        raise ValueError
    return text


_WRONG: dict[Kind, str] = {
    "text": "This is a text.",
    "line": "This is a text.",
    "number": "This is a number, such as 12 or -0.5.",
    "choice": "Choose from what is offered.",
    "json": "This is not JSON. A text stands in double quotes.",
}


def _field(key: str, name: str, said: dict[str, Json], is_required: bool) -> Field:
    choices = _choices(said)
    kind = "choice" if choices else _kind(said)
    title = said.get("title")
    is_title_new = isinstance(title, str) and title.lower().replace(" ", "_") != name.lower()
    return Field(
        key=key,
        name=name,
        kind=kind,
        label=draw_hidden(name),
        title=draw_hidden(str(title)) if is_title_new else SafeString(""),
        description=draw_hidden(str(said.get("description") or "").strip()),
        about=draw_hidden(", ".join(_about(said, kind))),
        is_required=is_required,
        input_type=_INPUT_TYPES.get(str(said.get("format")), "text"),
        choices=choices,
        attributes=_attributes(said, kind),
    )


def _plain(said: Json, root: Json) -> dict[str, Json]:
    """The property without what stands around it: a reference within the schema, and `null` beside
    one other form. What was said around it (its description) stays."""
    found = _dict(said)
    for _ in range(MOST_REFERENCES):
        inner = _pointed(found.get("$ref"), root) or _only_form(found)
        if inner is None:
            return found
        around = {word: value for word, value in found.items() if word not in _FORMS}
        found = {**inner, **around}
    return {}


_FORMS = ("$ref", "anyOf", "oneOf", "allOf")


def _pointed(reference: Json, root: Json) -> dict[str, Json] | None:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found = root
    for step in reference.removeprefix("#/").split("/"):
        found = _dict(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found if isinstance(found, dict) else None


def _only_form(said: dict[str, Json]) -> dict[str, Json] | None:
    forms = said.get("anyOf", said.get("oneOf", said.get("allOf")))
    if "enum" in said or not isinstance(forms, list):
        return None
    real = [form for form in forms if form != {"type": "null"}]
    return real[0] if len(real) == 1 and isinstance(real[0], dict) else None


def _types(said: dict[str, Json]) -> list[Json]:
    types = said.get("type")
    return [each for each in (types if isinstance(types, list) else [types]) if each != "null"]


def _kind(said: dict[str, Json]) -> Kind:
    if any(word in said for word in _FORMS):
        return "json"
    match _types(said):
        case ["string"]:
            most = said.get("maxLength")
            is_short = isinstance(most, int) and most <= SHORT_CHARACTERS
            return "line" if is_short or said.get("format") in _INPUT_TYPES else "text"
        case ["integer"] | ["number"]:
            return "number"
    return "json"


def _choices(said: dict[str, Json]) -> tuple[Choice, ...]:
    """What can be chosen, where the schema lists it in one of the ways that there are."""
    values, words = _list(said.get("enum")), _list(said.get("enumNames"))
    forms = [_dict(form) for form in _list(said.get("oneOf"))]
    if "const" in said:
        values = [said["const"]]
    elif forms and all("const" in form for form in forms):
        values = [form["const"] for form in forms]
        words = [form.get("title") for form in forms]
    elif not values and _types(said) == ["boolean"]:
        values = [True, False]
    if not 0 < len(values) <= MOST_CHOICES:
        return ()
    if len(words) != len(values):
        words = [None] * len(values)
    return tuple(
        Choice(value=json.dumps(value), words=draw_hidden(_words(value, word)))
        for value, word in zip(values, words, strict=True)
    )


def _words(value: Json, word: Json) -> str:
    if isinstance(word, str) and word:
        return word
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _about(said: dict[str, Json], kind: Kind) -> list[str]:
    """What kind of value it is, in words, and what it is where nothing is given."""
    types = [_SAID[each] for each in _types(said) if isinstance(each, str) and each in _SAID]
    if kind == "json" and len(types) != 1:
        types = ["JSON"]
    about = [] if kind == "choice" else types
    if "minimum" in said or "maximum" in said:
        about = [*about, f"{said.get('minimum', '…')} to {said.get('maximum', '…')}"]
    if said.get("default") is not None:
        about = [*about, f"otherwise {json.dumps(said['default'], ensure_ascii=False)[:80]}"]
    return [str(each) for each in about]


def _attributes(said: dict[str, Json], kind: Kind) -> tuple[tuple[str, str], ...]:
    """What a browser can check and help with; the server checks again."""
    pairs: list[tuple[str, Json]] = []
    if kind == "number":
        pairs = [("min", said.get("minimum")), ("max", said.get("maximum"))]
    found = [(name, f"{value:.15g}") for name, value in pairs if _is_number(value)]
    if kind == "number":
        found.append(("step", "1" if _types(said) == ["integer"] else "any"))
    return tuple(found)


def _is_number(value: Json) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300 and math.isfinite(value)


def _dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
