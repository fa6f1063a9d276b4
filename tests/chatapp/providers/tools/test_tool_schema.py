"""Schemas as providers read them, whatever a service says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.providers.tools.tool_schema import MAX_NODES, PLAIN_KEYWORDS, compile_schema

ROOT: dict[str, Any] = {"type": "object", "properties": {}}


def compiled(**properties: Any) -> Any:
    """The compiled form of one object's properties."""
    return compile_schema({"type": "object", "properties": properties})["properties"]


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"properties": []}, {"type": ["x"]}])
def test_the_root_is_always_an_object(schema: dict[str, Any]) -> None:
    assert compile_schema(schema) == ROOT


def test_a_plain_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "description": "Look up",
        "properties": {
            "place": {"type": "string", "description": "Where", "minLength": 1},
            "kind": {"enum": ["sun", "rain", 3, None]},
            "days": {"type": ["integer", "null"], "minimum": 1, "default": 3},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "more": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["place"],
        "additionalProperties": False,
    }
    assert compile_schema(schema) == schema


def test_local_references_are_put_in_their_places() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/a~1b"}, "b": {"$ref": "#/properties/a"}},
        "$defs": {"a/b": {"type": "string", "description": "kept"}},
    }
    kept = {"type": "string", "description": "kept"}
    assert compile_schema(schema)["properties"] == {"a": kept, "b": kept}
    assert "$" not in json.dumps(compile_schema(schema))


def test_what_stands_beside_a_reference_counts() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/x", "description": "near"}},
        "$defs": {"x": {"type": "string", "description": "far"}},
    }
    assert compile_schema(schema)["properties"]["a"]["description"] == "near"


@pytest.mark.parametrize("ref", ["#/nowhere", "https://evil.example/s.json", "#/$defs/0", 7, None])
def test_a_reference_that_leads_nowhere_accepts_anything(ref: object) -> None:
    assert compiled(a={"$ref": ref, "description": "kept"}) == {"a": {"description": "kept"}}


def test_a_recursive_schema_ends() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    inner = compile_schema(tree)["properties"]["next"]
    assert inner["properties"] == {"next": {}}


def test_a_very_deep_schema_ends() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(900):
        schema = {"type": "object", "properties": {"a": schema}}
    assert "string" not in json.dumps(compile_schema(schema))


def test_a_schema_that_doubles_at_each_step_stays_small() -> None:
    defs: dict[str, Any] = {"d0": {"enum": ["x" * 5_000]}}
    for level in range(1, 30):
        both = {"$ref": f"#/$defs/d{level - 1}"}
        defs[f"d{level}"] = {"properties": {"a": both, "b": both}}
    result = compile_schema({"properties": {"x": {"$ref": "#/$defs/d29"}}, "$defs": defs})
    assert len(json.dumps(result)) < MAX_NODES * 200


def test_a_union_at_the_root_becomes_one_object_that_tells_the_choice() -> None:
    by_id = {"properties": {"id": {"type": "integer"}}, "required": ["id", "why"]}
    by_name = {"properties": {"name": {"type": "string"}}, "required": ["name", "why"]}
    schema = {"properties": {"why": {"type": "string"}}, "anyOf": [by_id, by_name]}
    result = compile_schema(schema)
    assert set(result["properties"]) == {"why", "id", "name"}
    assert result["required"] == ["why"]
    assert "(id, why); (name, why)" in result["description"]
    assert "anyOf" not in result


def test_all_parts_of_a_root_count() -> None:
    part = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    result = compile_schema({"allOf": [part, {"properties": {"b": {}}, "required": ["b"]}]})
    assert result["required"] == ["a", "b"]
    assert set(result["properties"]) == {"a", "b"}


def test_branches_that_disagree_about_a_property_both_stay() -> None:
    branches = [{"properties": {"a": {"type": kind}}} for kind in ("string", "integer")]
    result = compile_schema({"oneOf": branches})
    assert result["properties"]["a"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}


@pytest.mark.parametrize(
    ("given_schema", "expected"),
    [
        (True, {}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"items": {"type": "string"}}, {"items": {"type": "string"}, "type": "array"}),
        (
            {"type": "array", "items": [{"type": "string"}]},
            {"prefixItems": [{"type": "string"}], "type": "array", "items": {}},
        ),
        ({"properties": {}}, {"properties": {}, "type": "object"}),
        ({"type": "text", "minimum": "1", "x-own": 1}, {}),
        ({"type": "string", "pattern": "("}, {"type": "string"}),
        ({"type": "number", "default": float("nan")}, {"type": "number"}),
        ({"type": "number", "maximum": float("inf")}, {"type": "number"}),
        ({"enum": []}, {}),
        ({"type": "string", "description": 4}, {"type": "string"}),
        ({"type": "object", "required": "a"}, {"type": "object"}),
        ({"anyOf": []}, {}),
    ],
)
def test_nothing_malformed_is_passed_on(given_schema: Any, expected: Any) -> None:
    assert compiled(a=given_schema)["a"] == expected


def test_only_properties_that_exist_are_required() -> None:
    assert compile_schema({"properties": {"a": {}}, "required": ["a", "b"]})["required"] == ["a"]
    assert "required" not in compile_schema({"required": ["b"]})


KEYWORDS = st.sampled_from(
    [*PLAIN_KEYWORDS, "type", "properties", "items", "prefixItems", "patternProperties", "not"]
    + ["additionalProperties", "anyOf", "allOf", "oneOf", "$ref", "$defs", "unevaluatedItems"]
)
WORDS = st.sampled_from(["object", "string", "array", "#", "#/$defs/a", "#/properties/a", "a", "("])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | st.just("a"), inner, max_size=4)
    ),
    max_leaves=25,
)


@given(schema=st.dictionaries(KEYWORDS, JSON, max_size=6))
def test_any_schema_compiles_to_one_that_is_taken(schema: dict[str, Any]) -> None:
    result = compile_schema(schema)
    assert result["type"] == "object"
    assert isinstance(result["properties"], dict)
    assert not result.keys() & {"anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"}
    assert set(result.get("required", [])) <= set(result["properties"])
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize("pattern", ["a{" + "9" * 20 + "}", "(" * 3_000 + ")" * 3_000, "(", 7])
def test_a_pattern_that_cannot_be_read_is_left_out(pattern: object) -> None:
    assert compiled(a={"type": "string", "pattern": pattern}) == {"a": {"type": "string"}}
    named = {"type": "object", "patternProperties": {str(pattern): {}, "^x": {}}}
    if pattern != 7:
        assert compiled(a=named)["a"]["patternProperties"] == {"^x": {}}


@pytest.mark.parametrize(
    ("place", "found"), [("0", {"type": "null"}), ("1", {}), ("9" * 5_000, {})]
)
def test_a_reference_into_a_list_counts_its_members(place: str, found: dict[str, Any]) -> None:
    properties = {"a": {"$ref": f"#/anyOf/{place}"}}
    schema = {"properties": properties, "anyOf": [{"type": "null"}]}
    assert compile_schema(schema)["properties"]["a"] == found
