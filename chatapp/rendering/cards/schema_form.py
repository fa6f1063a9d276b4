"""The input schema of a tool as a form: one field for each value, and the JSON of filled-in fields.

This module does not validate the JSON against the schema. A service wrote the schema: a part that
is not understood becomes a field for JSON.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.rendering.hidden_characters import draw_hidden

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Json = Any
Kind = Literal["text", "line", "number", "choice", "json"]

MAX_FIELDS = 60
MAX_CHOICES = 200
MAX_REFERENCES = 8
SHORT_CHARACTERS = 120
_TYPE_WORDS: "dict[str, StrOrPromise]" = {
    "string": gettext_lazy("text"),
    "integer": gettext_lazy("whole number"),
    "number": gettext_lazy("number"),
    "boolean": gettext_lazy("true or false"),
    "array": gettext_lazy("list, as JSON"),
    "object": gettext_lazy("object, as JSON"),
}
_INPUT_TYPES = {"email": "email", "uri": "url", "date": "date"}


class UnreadableValues(ValueError):
    """Fields and JSON cannot be converted. The text is shown to the person; `problems` has a
    sentence for each unreadable field, by its key."""

    def __init__(self, sentence: str, problems: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.problems = dict(problems or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One choice; `value` is JSON."""

    value: str
    words: SafeString


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value. `key` is the name that a browser sends: names of a tool could equal ours."""

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


def build_fields(schema: Json) -> list[Field]:
    """Return the fields of a schema, required ones first, or none if it cannot be a form."""
    properties = _as_dict(schema).get("properties")
    if not isinstance(properties, dict) or len(properties) > MAX_FIELDS:
        return []
    required = _as_list(_as_dict(schema).get("required"))
    ordered = sorted(properties, key=lambda name: name not in required)
    return [
        _build_field(
            f"v{place}", name, _resolve_property(properties[name], schema), name in required
        )
        for place, name in enumerate(ordered)
    ]


def fields_to_json(fields: list[Field], typed: Mapping[str, str]) -> str:
    """Return the JSON object of filled-in fields, without empty ones. Raises UnreadableValues."""
    parts, problems = [], {}
    for field in fields:
        text = typed.get(field.key, "").replace("\r\n", "\n")
        if not text.strip() and (field.kind not in ("text", "line") or not text):
            continue
        try:
            parts.append(f"{json.dumps(field.name)}: {_read_value(field, text)}")
        except (ValueError, RecursionError):
            problems[field.key] = str(_PROBLEMS[field.kind])
    if problems:
        raise UnreadableValues(_("Some values are not valid."), problems)
    return "{" + ", ".join(parts) + "}"


def json_to_fields(fields: list[Field], arguments: str) -> dict[str, str]:
    """Return the text of each field for these arguments. Raises UnreadableValues for a value that
    no field can hold."""
    values = json.loads(arguments)
    by_name = {field.name: field for field in fields}
    typed = {}
    for name, value in values.items():
        text = _format_value(by_name[name], value) if name in by_name else None
        if text is None:
            problem = _("The form has no field for this value of “%(name)s”.") % {"name": name}
            raise UnreadableValues(problem)
        typed[by_name[name].key] = text
    return typed


def _format_value(field: Field, value: Json) -> str | None:
    """Return None if the field would change the value."""
    if field.kind in ("text", "line"):
        is_same = isinstance(value, str) and value and (field.kind == "text" or "\n" not in value)
        return value if is_same and _can_hold(field, str(value)) else None
    if field.kind == "choice":
        text = json.dumps(value)
        return text if text in {choice.value for choice in field.choices} else None
    if field.kind == "number" and not (isinstance(value, int | float) and value is not True):
        return None
    return json.dumps(value, ensure_ascii=False, indent=2 if field.kind == "json" else None)


def _can_hold(field: Field, value: str) -> bool:
    """Return whether a browser keeps the value: it empties a date field with an invalid date."""
    return field.input_type != "date" or re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) is not None


def _read_value(field: Field, text: str) -> str:
    """Return the value of the field as JSON. JSON stays unchanged, so that a long number or a
    repeated name is not lost before validation."""
    if field.kind in ("text", "line"):
        return json.dumps(text)
    value = json.loads(text)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if field.kind == "number" and not is_number:
        raise ValueError
    if field.kind == "choice" and text not in {choice.value for choice in field.choices}:
        raise ValueError
    return text


_PROBLEMS: "dict[Kind, StrOrPromise]" = {
    "text": gettext_lazy("Enter text."),
    "line": gettext_lazy("Enter text."),
    "number": gettext_lazy("Enter a number, such as 12 or -0.5."),
    "choice": gettext_lazy("Choose one of the options."),
    "json": gettext_lazy("Enter valid JSON. Put text in double quotes."),
}


def _build_field(key: str, name: str, said: dict[str, Json], is_required: bool) -> Field:
    choices = _list_choices(said)
    kind = "choice" if choices else _choose_kind(said)
    title = said.get("title")
    is_title_new = isinstance(title, str) and title.lower().replace(" ", "_") != name.lower()
    return Field(
        key=key,
        name=name,
        kind=kind,
        label=draw_hidden(name),
        title=draw_hidden(str(title)) if is_title_new else SafeString(""),
        description=draw_hidden(str(said.get("description") or "").strip()),
        about=draw_hidden(", ".join(_describe_value(said, kind))),
        is_required=is_required,
        input_type=_INPUT_TYPES.get(str(said.get("format")), "text"),
        choices=choices,
        attributes=_build_attributes(said, kind),
    )


def _resolve_property(said: Json, root: Json) -> dict[str, Json]:
    """Resolve references within the schema, and `null` beside one other form. Keywords around them,
    such as the description, stay."""
    found = _as_dict(said)
    for _attempt in range(MAX_REFERENCES):
        inner = _follow_reference(found.get("$ref"), root) or _find_only_form(found)
        if inner is None:
            return found
        around = {word: value for word, value in found.items() if word not in _FORMS}
        found = {**inner, **around}
    return {}


_FORMS = ("$ref", "anyOf", "oneOf", "allOf")


def _follow_reference(reference: Json, root: Json) -> dict[str, Json] | None:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found = root
    for step in reference.removeprefix("#/").split("/"):
        found = _as_dict(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found if isinstance(found, dict) else None


def _find_only_form(said: dict[str, Json]) -> dict[str, Json] | None:
    forms = said.get("anyOf", said.get("oneOf", said.get("allOf")))
    if "enum" in said or not isinstance(forms, list):
        return None
    real = [form for form in forms if form != {"type": "null"}]
    return real[0] if len(real) == 1 and isinstance(real[0], dict) else None


def _list_types(said: dict[str, Json]) -> list[Json]:
    types = said.get("type")
    return [each for each in (types if isinstance(types, list) else [types]) if each != "null"]


def _choose_kind(said: dict[str, Json]) -> Kind:
    if any(word in said for word in _FORMS):
        return "json"
    match _list_types(said):
        case ["string"]:
            most = said.get("maxLength")
            is_short = isinstance(most, int) and most <= SHORT_CHARACTERS
            return "line" if is_short or said.get("format") in _INPUT_TYPES else "text"
        case ["integer"] | ["number"]:
            return "number"
    return "json"


def _list_choices(said: dict[str, Json]) -> tuple[Choice, ...]:
    """Return the choices, if the schema lists them in one of the known ways."""
    values, words = _as_list(said.get("enum")), _as_list(said.get("enumNames"))
    forms = [_as_dict(form) for form in _as_list(said.get("oneOf"))]
    if "const" in said:
        values = [said["const"]]
    elif forms and all("const" in form for form in forms):
        values = [form["const"] for form in forms]
        words = [form.get("title") for form in forms]
    elif not values and _list_types(said) == ["boolean"]:
        values = [True, False]
    if not 0 < len(values) <= MAX_CHOICES:
        return ()
    if len(words) != len(values):
        words = [None] * len(values)
    return tuple(
        Choice(value=json.dumps(value), words=draw_hidden(_label_choice(value, word)))
        for value, word in zip(values, words, strict=True)
    )


def _label_choice(value: Json, word: Json) -> str:
    if isinstance(word, str) and word:
        return word
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _describe_value(said: dict[str, Json], kind: Kind) -> list[str]:
    """Return the type of the value in words, its bounds and its default."""
    types = [
        _TYPE_WORDS[each]
        for each in _list_types(said)
        if isinstance(each, str) and each in _TYPE_WORDS
    ]
    if kind == "json" and len(types) != 1:
        types = ["JSON"]
    about = [] if kind == "choice" else types
    bounds = {"least": said.get("minimum"), "most": said.get("maximum")}
    if None not in bounds.values():
        about = [*about, _("%(least)s to %(most)s") % bounds]
    elif bounds["least"] is not None:
        about = [*about, _("at least %(least)s") % bounds]
    elif bounds["most"] is not None:
        about = [*about, _("at most %(most)s") % bounds]
    if said.get("default") is not None:
        value = json.dumps(said["default"], ensure_ascii=False)[:80]
        about = [*about, _("default: %(value)s") % {"value": value}]
    return [str(each) for each in about]


def _build_attributes(said: dict[str, Json], kind: Kind) -> tuple[tuple[str, str], ...]:
    """Return attributes for checks in the browser; the server checks again."""
    pairs: list[tuple[str, Json]] = []
    if kind == "number":
        pairs = [("min", said.get("minimum")), ("max", said.get("maximum"))]
    found = [(name, f"{value:.15g}") for name, value in pairs if _is_number(value)]
    if kind == "number":
        found.append(("step", "1" if _list_types(said) == ["integer"] else "any"))
    return tuple(found)


def _is_number(value: Json) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300 and math.isfinite(value)


def _as_dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
