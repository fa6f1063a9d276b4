"""The form in which a person changes the values of a call before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from chatapp.models import ToolCall

from .definitions import definition_of
from .schema_form import Field, Misread, fields_of, json_of, typed_of
from .veil import is_secret
from .visible import has_hidden

EXACT = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What somebody typed that could not be taken: by field, with a sentence where one is at
    fault."""

    values: Mapping[str, str]
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueField:
    field: Field
    value: str
    problem: str = ""
    is_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesForm:
    """`fields` where the values fit into some, else `exact` is the JSON to edit. `is_open`: what
    was typed did not fit, so it is shown at once."""

    fields: tuple[ValueField, ...] = ()
    exact: str = ""
    is_open: bool = False


def form_of(call: ToolCall, typed: Typed | None = None) -> ValuesForm | None:
    """The form for the values of this call; None where they cannot be changed, or hold characters
    that nobody would see in a field."""
    if definition_of(call) is None or has_hidden(call.arguments):
        return None
    fields = _fields_for(call)
    is_open = typed is not None and typed.values.get("decision") == "change"
    values = typed.values if typed and is_open else _values_of(call, fields)
    problems = typed.problems if typed else {}
    if not fields:
        return ValuesForm(exact=values.get(EXACT, call.arguments), is_open=is_open)
    shown = (
        ValueField(
            field=field,
            value=values.get(field.key, ""),
            problem=problems.get(field.key, ""),
            is_secret=is_secret(field.name, values.get(field.key, "")),
        )
        for field in fields
    )
    return ValuesForm(fields=tuple(shown), is_open=is_open)


def changed_json(call: ToolCall, posted: Mapping[str, str]) -> str:
    """The arguments that the form says. Raises Misread."""
    fields = _fields_for(call)
    return json_of(fields, posted) if fields else posted.get(EXACT, "")


def _fields_for(call: ToolCall) -> list[Field]:
    """None where a value is there that no field can hold."""
    definition = definition_of(call)
    fields = fields_of(definition.input_schema if definition else None)
    try:
        typed_of(fields, call.arguments)
    except (Misread, ValueError):
        return []
    return fields


def _values_of(call: ToolCall, fields: list[Field]) -> Mapping[str, str]:
    return typed_of(fields, call.arguments) if fields else {}
