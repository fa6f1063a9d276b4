"""Arguments against a tool's schema: mismatches in words, and no schema that takes long."""

import json
from typing import Any

import pytest

from mcpconfig.values.arguments import MAX_PARTS, describe_mismatch, drop_refused_nulls

NOTE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer", "minimum": 1},
        "how": {"enum": ["fast", "slow", None]},
        "filter": {
            "type": "object",
            "properties": {"names": {"type": "array", "items": {"type": "string"}}},
            "required": ["names"],
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}
ANY_DRAFT = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]


def of(value: Any, schema: Any) -> str:
    return describe_mismatch(json.dumps(value), schema)


def text(**rules: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"text": {"type": "string", **rules}}}


# --- what is wrong, in words ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({}, "Missing: text."),
        ({"text": "a", "filter": {}}, "Missing: filter.names."),
        ({"text": 5}, "text must be text, not 5."),
        ({"text": None}, "text must be text, not null."),
        ({"text": ["a"]}, "text must be text, not a list."),
        ({"text": "a", "count": 1.5}, "count must be a whole number, not 1.5."),
        ({"text": "a", "how": "well"}, 'how must be one of "fast", "slow", null.'),
        ({"text": "a", "extra": 1}, "Unknown: extra."),
        ({"text": "a", "filter": {"names": ["b", 3]}}, "filter.names[1] must be text, not 3."),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(value: Any, sentence: str) -> None:
    assert of(value, NOTE) == sentence


@pytest.mark.parametrize(
    "value", [{"text": ""}, {"text": "a", "count": 2.0}, {"text": "a", "how": None}]
)
def test_what_fits_is_not_objected_to(value: Any) -> None:
    assert of(value, NOTE) == ""


def test_all_that_is_missing_is_named_together_and_first() -> None:
    schema = {"required": ["a", "b"], "properties": {"c": {"type": "integer"}}}
    assert of({"c": "x"}, schema) == ('Missing: a, b. c must be a whole number, not "x".')


def test_no_more_than_three_things_are_said_at_once() -> None:
    schema = {"properties": {name: {"type": "null"} for name in "abcdef"}}
    assert of(dict.fromkeys("abcdef", 1), schema).count("must be null") == 3


def test_a_long_value_is_not_repeated_to_the_model() -> None:
    assert len(of({"text": "x" * 10_000}, text(maxLength=5))) < 250
    assert len(of({"count": "x" * 10_000}, NOTE | {"required": []})) < 100


def test_a_choice_of_types_is_told_as_one() -> None:
    choice = {"properties": {"id": {"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}]}}}
    assert of({"id": True}, choice) == "id must be text or a whole number or null, not true."
    assert of({"id": 7}, choice) == ""
    mixed = {"properties": {"id": {"oneOf": [{"minLength": 3}, {"maxLength": 1}]}}}
    assert of({"id": "xx"}, mixed) == "id matches none of the allowed forms."


def test_a_reference_inside_the_schema_is_followed() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert of({"a": "x"}, schema) == 'a must be a whole number, not "x".'
    tree = {"properties": {"child": {"$ref": "#"}, "name": {"type": "string"}}}
    assert of({"child": {"child": {"name": 1}}}, tree) == "child.child.name must be text, not 1."


@pytest.mark.parametrize("draft", ANY_DRAFT)
def test_every_draft_that_services_use_is_understood(draft: str) -> None:
    schema = NOTE | {"$schema": draft}
    assert of({}, schema) == "Missing: text."
    assert of({"text": "a"}, schema) == ""


def test_a_rule_means_what_its_draft_says() -> None:
    rule = {"properties": {"n": {"minimum": 1, "exclusiveMinimum": True}}}
    assert of({"n": 1}, rule | {"$schema": ANY_DRAFT[0]}).startswith("n does not fit")
    assert of({"n": 1}, rule) == ""  # no rule of any later draft, so nobody can tell


# --- what cannot be checked goes to a person ------------------------------------------------------
@pytest.mark.parametrize(
    "schema",
    [
        {"required": "text"},
        {"properties": []},
        {"type": "strin"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://elsewhere.example/schema.json"},
        {"$ref": ANY_DRAFT[-1]},
        {"properties": {"text": {"pattern": "["}}},
        {"$schema": "http://json-schema.org/draft-03/schema#", "type": "string"},
        {"allOf": [{"$schema": ANY_DRAFT[-1], "type": "string"}]},
    ],
)
def test_a_schema_that_is_none_lets_the_call_through(schema: Any) -> None:
    assert of({"text": 1}, schema) == ""


def test_arguments_that_cannot_be_read_are_not_judged() -> None:
    assert describe_mismatch('{"text": ', NOTE) == ""


def test_a_reference_to_elsewhere_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **_: asked.append(args))
    assert of({}, {"$ref": "http://elsewhere.example/schema.json", "required": ["a"]}) == ""
    assert asked == []


def doubling(levels: int) -> dict[str, Any]:
    """Each definition asks for the next one twice: two to the power of `levels` checks."""
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": twice | {f"d{levels}": {}}, "$ref": "#/$defs/d0"}


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        inner = {"properties": {"a": inner}}
    return inner


@pytest.mark.parametrize(
    "schema",
    [
        doubling(40),
        doubling(40) | {"$schema": ANY_DRAFT[-1]},
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"properties": {"p1": {"type": "string"}, "a": nested(40)}},
        {"properties": {"p1": {"type": "string"}, "a": nested(5_000)}},
        {"properties": {f"p{n}": {"type": "string"} for n in range(MAX_PARTS)}},
        {"enum": [[n] for n in range(100_000)]},
    ],
    ids=[
        "doubling",
        "doubling of a draft",
        "itself",
        "itself twice",
        "deep",
        "deeper",
        "wide",
        "choices",
    ],
)
def test_a_schema_that_would_take_long_lets_the_call_through(schema: Any) -> None:
    assert of({"a": 1, "p1": 1}, schema) == ""


def test_many_values_are_checked_within_a_bound() -> None:
    each = {"properties": {"list": {"items": {"allOf": [{"required": ["b"]}] * 100}}}}
    assert of({"list": [{"a": n} for n in range(20_000)]}, each) == ""
    unique = {"properties": {"list": {"uniqueItems": True}}}
    assert of({"list": [{"a": n} for n in range(9_000)] * 2}, unique) == ""
    assert of({"list": [1, 1]}, unique).startswith("list does not fit")


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "a?a?a?a?a?a?aaaaaa", r"(.*)\1\1x"])
def test_a_pattern_that_could_hang_is_not_run(pattern: str) -> None:
    assert of({"text": "a" * 199}, text(pattern=pattern)) == ""
    assert of({"a" * 199: 1}, {"patternProperties": {pattern: {"type": "string"}}}) == ""
    closed = {"patternProperties": {pattern: {}}, "additionalProperties": False}
    assert of({"a" * 199: 1}, closed) == ""


def test_no_reference_leads_out_of_the_bounds() -> None:
    schema = text(pattern="(a+)+b") | {"$schema": ANY_DRAFT[-1]}
    schema["properties"]["child"] = {"$ref": "#"}
    assert of({"child": {"text": "a" * 199}}, schema) == ""


def test_a_plain_pattern_counts_for_a_short_text() -> None:
    rule = text(pattern="^[A-Z]+-[0-9]+$")
    assert of({"text": "shop"}, rule).startswith("text does not fit")
    assert of({"text": "SHOP-482"}, rule) == ""
    assert of({"text": "x" * 201}, rule) == ""


@pytest.mark.parametrize(
    "rule",
    [
        {"not": {"pattern": "(a+)+b"}},
        {"not": {"not": {"pattern": "(aaa)+"}}},
        {"oneOf": [{"pattern": "(a)"}, {"pattern": "(b)"}]},
        {"if": {"pattern": "(b)"}, "then": {"maxLength": 1}},
    ],
)
def test_a_pattern_that_is_left_out_turns_no_fitting_value_into_a_misfit(rule: Any) -> None:
    assert of({"text": "aaa"}, text(**rule)) == ""


def test_what_stands_beside_a_left_out_pattern_still_counts() -> None:
    rule = text(pattern="(a+)+b") | {"required": ["text", "more"]}
    assert of({"text": "a"}, rule) == "Missing: more."
    negated = text(**{"not": {"pattern": "^a"}})
    assert of({"text": "abc"}, negated).startswith("text does not fit")


# --- nulls that stand for a value that is not given ----------------------------------------------
NULLS: dict[str, Any] = {
    **NOTE,
    "$defs": {"name": {"type": "string"}, "maybe": {"type": ["string", "null"]}},
    "properties": {
        **NOTE["properties"],
        "author": {"$ref": "#/$defs/name"},
        "editor": {"$ref": "#/$defs/maybe"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "anything": {},
        "span": {"type": "object", "properties": {"from": {"type": "string"}}},
        "rows": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "number"}}},
        },
    },
}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"text": "a", "count": None}, {"text": "a"}),
        ({"text": "a", "author": None}, {"text": "a"}),
        ({"text": "a", "span": {"from": None}}, {"text": "a", "span": {}}),
        ({"text": "a", "rows": [{"n": None}, {"n": 1}]}, {"text": "a", "rows": [{}, {"n": 1}]}),
    ],
)
def test_a_null_that_the_schema_refuses_is_dropped(given: Any, kept: Any) -> None:
    assert of(given, NULLS)
    found = drop_refused_nulls(json.dumps(given), NULLS)
    assert json.loads(found) == kept
    assert not describe_mismatch(found, NULLS)


@pytest.mark.parametrize(
    "given",
    [
        {"text": None},
        {"text": "a", "how": None},
        {"text": "a", "editor": None},
        {"text": "a", "either": None},
        {"text": "a", "anything": None},
        {"text": "a", "filter": {"names": None}},
        {"text": "null"},
    ],
)
def test_a_null_that_has_a_meaning_or_is_required_stays(given: Any) -> None:
    exact = json.dumps(given, separators=(" ,", " : "))
    assert drop_refused_nulls(exact, NULLS) == exact


def test_a_schema_of_an_old_draft_ends_no_call() -> None:
    inner = {"type": "object", "required": True, "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"f": inner}}
    exact = '{"f": {"a": null}}'
    assert drop_refused_nulls(exact, schema) == exact


def test_very_many_nulls_are_not_checked_without_end() -> None:
    row = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": row}}}
    exact = json.dumps({"l": [{"a": None}] * 100_000})
    assert drop_refused_nulls(exact, schema) == exact


@pytest.mark.parametrize("exact", ["not json: null", '{"count": null, "n": 1e999}', "null"])
def test_arguments_that_cannot_be_written_again_stay_as_they_are(exact: str) -> None:
    assert drop_refused_nulls(exact, NULLS) == exact
