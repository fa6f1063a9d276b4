"""A tool's input schema as a form: what each value becomes, and the JSON that is made of it."""

import json
from typing import Any

import pytest

from chatapp.rendering.cards.schema_form import (
    MAX_FIELDS,
    Field,
    UnreadableValues,
    build_fields,
    fields_to_json,
    json_to_fields,
)

PLACE = {"type": "object", "properties": {"town": {"type": "string"}}}
TONE = {"enum": ["kind", "plain"]}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "$defs": {"place": PLACE, "tone": TONE}}


def field(said: Any) -> Field:
    return build_fields(schema(it=said))[0]


def test_required_fields_come_first_and_each_has_its_words() -> None:
    said = schema(
        more={"type": "string"},
        name={"type": "string", "title": "What it is called", "description": "As on the label."},
    )
    first, second = build_fields(said | {"required": ["name"]})
    assert (first.name, first.is_required) == ("name", True)
    assert (first.title, first.description) == ("What it is called", "As on the label.")
    assert (second.name, second.is_required, second.about) == ("more", False, "text")


@pytest.mark.parametrize(
    ("said", "kind", "choices"),
    [
        ({"type": "string"}, "text", []),
        ({"type": "string", "maxLength": 40}, "line", []),
        ({"type": "string", "format": "email"}, "line", []),
        ({"type": "integer"}, "number", []),
        ({"type": ["number", "null"]}, "number", []),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "number", []),
        ({"type": "boolean"}, "choice", ["true", "false"]),
        ({"enum": ["a", 1, None]}, "choice", ['"a"', "1", "null"]),
        ({"const": "x"}, "choice", ['"x"']),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]}, "choice", ["1", "2"]),
        ({"$ref": "#/$defs/tone"}, "choice", ['"kind"', '"plain"']),
        ({"anyOf": [{"$ref": "#/$defs/tone"}, {"type": "null"}]}, "choice", ['"kind"', '"plain"']),
        ({"$ref": "#/$defs/place"}, "json", []),
        ({"type": "array", "items": {"type": "string"}}, "json", []),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "json", []),
        ({"type": ["string", "integer"]}, "json", []),
        # what a service could say to confuse
        ({}, "json", []),
        ("nonsense", "json", []),
        (True, "json", []),
        ({"type": {"a": 1}}, "json", []),
        ({"enum": []}, "json", []),
        ({"enum": list(range(9_999)), "type": "integer"}, "number", []),
        ({"$ref": "https://elsewhere.example/schema"}, "json", []),
        ({"$ref": "#/properties/it"}, "json", []),
        ({"allOf": [{"$ref": "#/properties/it"}]}, "json", []),
    ],
)
def test_each_kind_of_value_has_its_field(said: Any, kind: str, choices: list[str]) -> None:
    made = field(said)
    assert (made.kind, [choice.value for choice in made.choices]) == (kind, choices)


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        "x",
        {},
        {"properties": []},
        schema(**{f"f{n}": {} for n in range(MAX_FIELDS + 1)}),
    ],
)
def test_a_schema_that_is_no_form_has_no_fields(said: Any) -> None:
    assert build_fields(said) == []


def test_what_a_service_says_is_drawn_and_never_markup() -> None:
    made = field({"description": "<b>\u202e", "enum": ["<i>"], "title": "<u>"})
    assert made.description == '&lt;b&gt;<span class="hidden-char">⟨U+202E⟩</span>'
    assert made.choices[0].words == "&lt;i&gt;"
    assert made.title == "&lt;u&gt;"


def test_bounds_and_defaults_are_told() -> None:
    made = field({"type": "integer", "minimum": 1, "maximum": 5, "default": 2})
    assert made.about == "whole number, 1 to 5, default: 2"
    assert made.attributes == (("min", "1"), ("max", "5"), ("step", "1"))
    assert field({"type": "integer", "minimum": 1}).about == "whole number, at least 1"
    assert field({"type": "number", "maximum": 5}).about == "number, at most 5"
    assert field({"type": "number", "minimum": "x"}).attributes == (("step", "any"),)


WHOLE = schema(
    text={"type": "string"},
    line={"type": "string", "maxLength": 9},
    count={"type": "integer"},
    flag={"type": "boolean"},
    tags={"type": "array"},
)


def fill_in(**values: str) -> dict[str, str]:
    keys = {each.name: each.key for each in build_fields(WHOLE)}
    return {keys[name]: value for name, value in values.items()}


@pytest.mark.parametrize(
    ("values", "made"),
    [
        ({}, {}),
        ({"text": "", "count": " ", "flag": ""}, {}),
        ({"text": " a\r\nb "}, {"text": " a\nb "}),
        ({"text": '"', "line": "<"}, {"text": '"', "line": "<"}),
        ({"count": "12", "flag": "false"}, {"count": 12, "flag": False}),
        ({"count": "-0.5"}, {"count": -0.5}),
        ({"tags": '["a", {"b": null}]'}, {"tags": ["a", {"b": None}]}),
    ],
)
def test_filled_in_fields_make_json(values: dict[str, str], made: dict[str, Any]) -> None:
    assert json.loads(fields_to_json(build_fields(WHOLE), fill_in(**values))) == made


def test_json_in_a_field_stays_letter_by_letter() -> None:
    """Otherwise a number beyond what is exact would be sent as another one, unseen."""
    text = '{"n": 12345678901234567890.0, "n": 1}'
    assert text in fields_to_json(build_fields(WHOLE), fill_in(tags=text))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("count", "twelve", "number"),
        ("count", "true", "number"),
        ("count", '"1"', "number"),
        ("flag", "yes", "Choose"),
        ("flag", "null", "Choose"),
        ("tags", "[a]", "Enter valid JSON"),
        ("tags", "[" * 100_000, "Enter valid JSON"),
    ],
)
def test_what_cannot_be_read_is_told_at_its_field(name: str, value: str, said: str) -> None:
    with pytest.raises(UnreadableValues) as caught:
        fields_to_json(build_fields(WHOLE), fill_in(**{name: value}))
    ((key, problem),) = caught.value.problems.items()
    assert {key: value} == fill_in(**{name: value})
    assert said in problem


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"text": "a\nb", "line": "c", "count": 3, "flag": True, "tags": [1, {"b": "ü"}]},
        {"count": 1.5, "flag": False, "tags": {}},
    ],
)
def test_arguments_go_into_the_fields_and_come_out_the_same(values: dict[str, Any]) -> None:
    fields = build_fields(WHOLE)
    assert json.loads(fields_to_json(fields, json_to_fields(fields, json.dumps(values)))) == values


@pytest.mark.parametrize(
    "values",
    [
        {"stranger": 1},
        {"text": ""},
        {"text": 1},
        {"line": "a\nb"},
        {"count": "1"},
        {"count": True},
        {"count": None},
        {"flag": "true"},
    ],
)
def test_what_no_field_can_hold_stays_json(values: dict[str, Any]) -> None:
    with pytest.raises(UnreadableValues, match=next(iter(values))):
        json_to_fields(build_fields(WHOLE), json.dumps(values))
