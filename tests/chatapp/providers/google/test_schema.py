"""Gemini can write whatever a tool takes, and the tool gets exactly that."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.providers.google.provider import DIALECT as GEMINI
from chatapp.providers.request import ToolSpec
from chatapp.providers.tools.toolbox import Toolbox
from tests.chatapp.providers.tools.test_toolbox import Schema, sent, spec, there_and_back


def test_a_free_object_that_may_be_missing_is_json_text_or_null_for_gemini() -> None:
    optional = {"anyOf": [{"type": "object", "additionalProperties": True}, {"type": "null"}]}
    nullable = {"type": ["object", "null"], "description": "Labels."}
    text = {"type": "string", "description": "JSON text of an object."}
    properties = sent(GEMINI, {"optional": optional, "nullable": nullable})["properties"]
    assert properties["optional"] == {"anyOf": [text, {"type": "null"}]}
    assert properties["nullable"] == {"description": "Labels.", "anyOf": [text, {"type": "null"}]}
    tool = spec({"optional": optional, "nullable": nullable})
    seen, back = there_and_back(GEMINI, tool, {"optional": {"a": 1}, "nullable": None})
    assert seen == {"optional": '{"a": 1}', "nullable": None}
    assert back == {"optional": {"a": 1}, "nullable": None}


def test_where_text_and_free_objects_fit_gemini_writes_texts_in_quotes() -> None:
    tool = spec({"a": {"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "integer"}]}})
    sent_schema = Toolbox(GEMINI, [tool]).tools[0].schema["properties"]["a"]
    assert [each["type"] for each in sent_schema["anyOf"]] == ["string", "integer"]
    assert '{"type": "object"}, {"type": "string"}' in sent_schema["anyOf"][0]["description"]
    for value, written in ({"b": 1}, '{"b": 1}'), ("{}", '"{}"'), ("x", '"x"'), (7, 7):
        assert there_and_back(GEMINI, tool, {"a": value}) == ({"a": written}, {"a": value})
    box = Toolbox(GEMINI, [tool])
    for bare in ("hello", "123", "true"):
        assert json.loads(box.arguments_from_wire(tool.name, json.dumps({"a": bare}))) == {
            "a": bare
        }


def test_what_an_object_takes_beside_its_own_properties_reaches_the_tool_from_gemini() -> None:
    numbers = {"additionalProperties": {"type": "number"}}
    tool = spec(
        {"$id": {}, "in": {"type": "object", "properties": {"b": {}}, **numbers}}, **numbers
    )
    schema = Toolbox(GEMINI, [tool]).tools[0].schema
    further = schema["properties"]["additional_properties"]
    assert further["type"] == "string"
    assert '{"type": "number"}' in further["description"]
    arguments = {"$id": "x", "in": {"b": 1, "c": 2}, "d": 3, "additional_properties": 4}
    seen, back = there_and_back(GEMINI, tool, arguments)
    assert seen["in"] == {"b": 1, "additional_properties": '{"c": 2}'}
    assert seen["additional_properties"] == '{"d": 3, "additional_properties": 4}'
    assert back == arguments
    taken = spec({"additional_properties": {"type": "string"}}, **numbers)
    assert set(sent(GEMINI, taken.input_schema["properties"], **numbers)["properties"]) == {
        "additional_properties",
        "additional_properties_",
    }


@pytest.mark.parametrize(
    "more", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}]
)
def test_a_tool_that_takes_any_arguments_gets_them_from_gemini(more: Schema) -> None:
    tool = spec(**more)
    assert set(Toolbox(GEMINI, [tool]).tools[0].schema["properties"]) == {"additional_properties"}
    seen, back = there_and_back(GEMINI, tool, {"a": [1], "b": {}})
    assert seen == {"additional_properties": '{"a": [1], "b": {}}'}
    assert back == {"a": [1], "b": {}}
    prose = '{"additional_properties": "not JSON"}'
    assert json.loads(Toolbox(GEMINI, [tool]).arguments_from_wire(tool.name, prose)) == {
        "additional_properties": "not JSON"
    }
    choice = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert set(sent(GEMINI, {}, **choice, **more)["properties"]) == {"additional_properties"}
    assert set(sent(GEMINI, {}, additionalProperties=False)["properties"]) == set()


TEXTS = st.text() | st.sampled_from(["{}", '{"a": 1}', '"x"', "[]", "1", "null", "true"])
SCALARS = {
    "string": TEXTS,
    "integer": st.integers(),
    "boolean": st.booleans(),
    "null": st.none(),
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
FREE_OBJECTS = st.dictionaries(TEXTS, ANYTHING, max_size=3)
PROPERTIES = st.sampled_from(["a", "b", "additional_properties"])
OPEN: dict[str, st.SearchStrategy[Any]] = {
    "additionalProperties": st.just({}) | st.just(True),
    "patternProperties": st.just({".": {}}),
}
Described = tuple[Schema, Any]


def scalars() -> st.SearchStrategy[Described]:
    kinds = st.sampled_from([*SCALARS])
    return kinds.flatmap(lambda kind: SCALARS[kind].map(lambda value: ({"type": kind}, value)))


def free_objects() -> st.SearchStrategy[Described]:
    how: st.SearchStrategy[Schema] = st.sampled_from(
        [{}, {"properties": {}}, {"additionalProperties": True}]
    )
    return st.tuples(how.map(lambda more: {"type": "object", **more}), FREE_OBJECTS)


def of_several_types() -> st.SearchStrategy[Described]:
    kinds = st.lists(st.sampled_from([*SCALARS]), min_size=1, max_size=2, unique=True)
    value = FREE_OBJECTS | st.none()
    return st.tuples(kinds.map(lambda names: {"type": ["object", "null", *names]}), value)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Described]) -> Described:
    held = draw(st.dictionaries(PROPERTIES, inner, min_size=1, max_size=3))
    schema = {"type": "object", "properties": {name: each for name, (each, _) in held.items()}}
    value = {name: each for name, (_, each) in held.items()}
    more = draw(st.sampled_from(["", *OPEN]))
    if more:
        schema[more] = draw(OPEN[more])
        value = draw(FREE_OBJECTS) | value
    return schema, value


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[Described]) -> Described:
    first = draw(st.lists(inner, max_size=2))
    schema, value = draw(inner)
    described: Schema = {"type": "array", "items": schema}
    described |= {"prefixItems": [each for each, _ in first]} if first else {}
    return described, [*(each for _, each in first), value, value]


@st.composite
def unions(draw: st.DrawFn, inner: st.SearchStrategy[Described]) -> Described:
    branches = draw(st.lists(inner, min_size=1, max_size=3))
    word = draw(st.sampled_from(["anyOf", "oneOf"]))
    return {word: [schema for schema, _ in branches]}, draw(st.sampled_from(branches))[1]


DESCRIBED = st.recursive(
    scalars() | free_objects() | of_several_types(),
    lambda inner: objects(inner) | lists(inner) | unions(inner),
    max_leaves=6,
)


def closed(schema: Any) -> Any:
    """With no property in any object but those that it names: Gemini writes no others."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(each) for key, each in schema.items()}
    return inner | ({"additionalProperties": False} if schema.get("type") == "object" else {})


@given(described=objects(DESCRIBED) | free_objects())
def test_gemini_can_write_whatever_a_tool_takes_and_the_tool_gets_it(described: Described) -> None:
    schema, arguments = described
    if not schema.get("properties"):
        schema = {**schema, "additionalProperties": True}
    tool = ToolSpec(name="files_list", description="", input_schema=schema)
    seen, back = there_and_back(GEMINI, tool, arguments)
    assert back == arguments
    jsonschema.validate(seen, closed(Toolbox(GEMINI, [tool]).tools[0].schema))
