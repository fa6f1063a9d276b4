"""Tools in each provider's dialect: what is sent is taken, and arguments come back unchanged."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatapp.providers.anthropic.provider import DIALECT as ANTHROPIC
from chatapp.providers.bedrock.provider import DIALECT as BEDROCK
from chatapp.providers.google.provider import DIALECT as GEMINI
from chatapp.providers.google.schema import TAKEN
from chatapp.providers.openai.provider import DIALECT as OPENAI
from chatapp.providers.registry import DIALECTS
from chatapp.providers.request import ToolSpec
from chatapp.providers.tools.argument_shape import PLAIN, Shape
from chatapp.providers.tools.toolbox import MAX_SCHEMA_CHARACTERS, Dialect, Toolbox, preflight

from .test_tool_schema import JSON, KEYWORDS

Schema = dict[str, Any]
PROPERTY_NAMES = {
    "anthropic": r"[a-zA-Z0-9_.-]{1,64}",
    "bedrock": r"[a-zA-Z0-9_.-]{1,64}",
    "google": r"[a-zA-Z_][a-zA-Z0-9_]{0,63}",
    "openai": r"(?s).*",
    "openai-chat": r"(?s).*",
}


def spec(properties: Schema | None = None, **schema: Any) -> ToolSpec:
    described = {"type": "object", "properties": properties or {}, **schema}
    return ToolSpec(name="files_list", description="List", input_schema=described)


def sent(dialect: Dialect, properties: Schema, **schema: Any) -> Schema:
    return Toolbox(dialect, [spec(properties, **schema)]).tools[0].schema


def there_and_back(dialect: Dialect, tool: ToolSpec, arguments: Schema) -> tuple[Any, Any]:
    """What a model would see of these arguments, and what the tool gets of that."""
    box = Toolbox(dialect, [tool])
    seen = box.arguments_to_wire(tool.name, json.dumps(arguments))
    return json.loads(seen), json.loads(box.arguments_from_wire(tool.name, seen))


ODATA = {"$filter": {"type": "string"}, "filter[id]": {"type": "integer"}, "plain": {}}


@pytest.mark.parametrize("dialect", [ANTHROPIC, BEDROCK, GEMINI], ids=lambda each: each.label)
def test_arguments_with_names_that_are_refused_come_back_under_their_own(dialect: Dialect) -> None:
    tool = spec(ODATA, required=["$filter"])
    schema = Toolbox(dialect, [tool]).tools[0].schema
    renamed = set(schema["properties"]) - {"plain"}
    assert not renamed & ODATA.keys()
    assert len(schema["required"]) == 1
    assert set(schema["required"]) < renamed
    given_arguments = {"$filter": "x", "filter[id]": 3, "plain": {"$filter": 1}}
    seen, back = there_and_back(dialect, tool, given_arguments)
    assert set(seen) == renamed | {"plain"}
    assert back == given_arguments


INNER = {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]}
NESTED = {
    "where": {
        "type": "object",
        "properties": {"$and": {"type": "array", "items": INNER}, "plain": {"type": "integer"}},
    },
    "pair": {"type": "array", "prefixItems": [{"type": "string"}, INNER]},
    "either": {"anyOf": [INNER, {"type": "string"}]},
    "one": {
        "type": "object",
        "properties": {"$a": {"type": "string"}, "$b": {"type": "string"}},
        "anyOf": [{"required": ["$a"]}, {"required": ["$b"]}],
    },
}


def list_names(schema: Any) -> set[str]:
    """The names of properties at every depth."""
    if isinstance(schema, list):
        return set().union(*map(list_names, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", {}))
    return own.union(*(list_names(each) for each in schema.values()))


@pytest.mark.parametrize("dialect", [ANTHROPIC, BEDROCK, GEMINI], ids=lambda each: each.label)
def test_nested_names_that_are_refused_come_back_under_their_own(dialect: Dialect) -> None:
    tool = spec(NESTED)
    assert dialect.properties
    schema = Toolbox(dialect, [tool]).tools[0].schema
    for name in list_names(schema):
        assert dialect.properties.takes(name), name
    assert '["$a"]' not in json.dumps(schema)
    given_arguments = {
        "where": {"$and": [{"@type": "a"}, {"@type": "b"}], "plain": 1},
        "pair": ["x", {"@type": "c"}],
        "either": {"@type": "d"},
    }
    seen, back = there_and_back(dialect, tool, given_arguments)
    assert "@type" not in json.dumps(seen)
    assert "$and" not in json.dumps(seen)
    assert back == given_arguments
    _, text = there_and_back(dialect, tool, {"either": "a text"})
    assert text == {"either": "a text"}
    assert "Renamed arguments: $a, $and, $b, @type." in preflight(dialect, tool)[1]


def test_openai_takes_any_name_of_an_argument() -> None:
    assert set(sent(OPENAI, ODATA)["properties"]) == set(ODATA)


def test_arguments_that_need_no_mapping_stay_the_bytes_that_the_model_wrote() -> None:
    box = Toolbox(GEMINI, [spec({"a": {"type": "string"}})])
    for written in ('{ "a" :1}', "{not json", ""):
        assert box.arguments_from_wire("files_list", written) == written
        assert box.arguments_from_wire("unheard_of", written) == written


FREE = {
    "body": {"type": "object", "description": "What to post."},
    "rows": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
    "deep": {
        "type": "object",
        "properties": {"map": {"type": "object", "additionalProperties": {"type": "number"}}},
    },
}


def test_a_free_object_is_json_text_for_gemini_and_an_object_for_the_tool() -> None:
    properties = sent(GEMINI, FREE)["properties"]
    assert properties["body"]["type"] == "string"
    assert properties["body"]["description"] == "What to post. JSON text of an object."
    assert properties["rows"]["items"]["type"] == "string"
    assert '{"type": "number"}' in properties["deep"]["properties"]["map"]["description"]
    arguments = {"body": {"a": [1, None]}, "rows": [{"b": "ü"}], "deep": {"map": {"c": 0.5}}}
    seen, back = there_and_back(GEMINI, spec(FREE), arguments)
    assert seen["body"] == '{"a": [1, null]}'
    assert back == arguments


def test_a_model_that_writes_the_object_itself_is_understood_too() -> None:
    box = Toolbox(GEMINI, [spec(FREE)])
    written = json.dumps({"body": {"a": 1}, "rows": "not a list"})
    assert json.loads(box.arguments_from_wire("files_list", written)) == json.loads(written)
    prose = json.dumps({"body": "not JSON"})
    assert json.loads(box.arguments_from_wire("files_list", prose)) == {"body": "not JSON"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": ["string", "null"], "description": "d"},
            {"description": "d", "anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        ({"const": "a"}, {"enum": ["a"], "type": "string"}),
        ({"enum": [1, 2], "type": "integer"}, {"type": "integer", "description": "One of 1, 2."}),
        ({"enum": [1, 2]}, {"description": "One of 1, 2."}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        (
            {"type": "string", "format": "uri", "pattern": "^h", "description": "Where."},
            {"type": "string", "description": "Where. It matches the pattern ^h. Format: uri."},
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
            {"type": "number", "maximum": 9, "description": "More than 0."},
        ),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        (
            {"allOf": [{"type": "string"}, {"description": "both"}]},
            {"type": "string", "description": "both"},
        ),
        ({"type": "array"}, {"type": "array", "items": {}}),
        (
            {"type": "boolean", "default": False},
            {"type": "boolean", "description": "Without it: false."},
        ),
    ],
)
def test_gemini_is_told_in_words_what_its_schemas_lack(schema: Schema, expected: Schema) -> None:
    assert sent(GEMINI, {"a": schema})["properties"]["a"] == expected


def keywords_in(schema: Schema) -> set[str]:
    found = set(schema)
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inner += [*schema.get("prefixItems", []), schema.get("items", {})]
    return found.union(*map(keywords_in, inner)) if any(inner) else found


@pytest.mark.parametrize("kind", DIALECTS)
@given(schema=st.dictionaries(KEYWORDS, JSON, max_size=6))
@example(schema={"items": {"const": None}})
@example(schema={"properties": {"a": {"type": "array", "prefixItems": [{"items": {"not": {}}}]}}})
@example(schema={"properties": {"a": {"properties": {"b": {}}, "anyOf": [{"const": 1}]}}})
def test_any_schema_is_sent_in_a_form_that_is_taken(kind: str, schema: Schema) -> None:
    tool = ToolSpec(name="files_list", description="List", input_schema=schema)
    box = Toolbox(DIALECTS[kind], [tool])
    assert len(box.tools) + len(box.left_out) == 1
    for each in box.tools:
        assert each.schema["type"] == "object"
        assert all(re.fullmatch(PROPERTY_NAMES[kind], name) for name in each.schema["properties"])
        assert set(each.schema.get("required", [])) <= set(each.schema["properties"])
        json.dumps(each.schema, allow_nan=False)
        if kind == "google":
            assert keywords_in(each.schema) <= TAKEN


@pytest.mark.parametrize("kind", DIALECTS)
@given(
    names=st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=6, unique=True),
    values=st.lists(st.integers() | st.text() | st.dictionaries(st.text(), st.none()), min_size=6),
)
def test_arguments_come_back_in_the_shape_of_the_tool(
    kind: str, names: list[str], values: list[Any]
) -> None:
    kinds = {int: "integer", str: "string", dict: "object"}
    arguments = dict(zip(names, values, strict=False))
    tool = spec({name: {"type": kinds[type(value)]} for name, value in arguments.items()})
    assert there_and_back(DIALECTS[kind], tool, arguments)[1] == arguments


def test_a_tool_that_no_provider_can_take_is_left_out_with_a_reason() -> None:
    text = ToolSpec(name="a_text", description="", input_schema={"type": "string"})
    words = "w" * MAX_SCHEMA_CHARACTERS
    long = ToolSpec(name="a_long", description="", input_schema={"description": words})
    box = Toolbox(ANTHROPIC, [text, spec(), long])
    assert [tool.name for tool in box.tools] == ["files_list"]
    assert {left.name: left.reason for left in box.left_out} == {
        "a_text": "The service does not describe its arguments as an object.",
        "a_long": "The description of its arguments is longer than 100,000 characters.",
    }


def test_openai_gets_no_more_tools_than_it_takes() -> None:
    specs = [ToolSpec(name=f"a_{n}", description="", input_schema={}) for n in range(130)]
    box = Toolbox(OPENAI, specs)
    assert len(box.tools) == 128
    assert [left.name for left in box.left_out] == ["a_128", "a_129"]
    assert box.left_out[0].reason == "OpenAI accepts at most 128 tools at once."
    assert not Toolbox(ANTHROPIC, specs).left_out


def test_the_preflight_says_what_a_provider_changes() -> None:
    tool = ToolSpec(
        name="files_list.all", description="", input_schema=spec({**ODATA, **FREE}).input_schema
    )
    reason, changes = preflight(GEMINI, tool)
    assert reason == ""
    assert changes == (
        "Renamed arguments: $filter, filter[id].",
        "Free-form arguments are written as JSON text: body, deep, rows.",
        "Parts of its argument description are simplified.",
    )
    open_root = spec({"a": {"type": "string"}}, additionalProperties=True)
    assert preflight(GEMINI, open_root)[1] == (
        "Arguments without a description are written into additional_properties.",
        "Parts of its argument description are simplified.",
    )
    assert preflight(OPENAI, spec({"a": {"type": "string"}})) == ("", ())
    bare = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    assert preflight(GEMINI, replace(tool, name="x", input_schema=bare)) == ("", ())
    named = spec({"$filter": {"type": "string"}})
    assert preflight(ANTHROPIC, named) == ("", ("Renamed arguments: $filter.",))
    assert preflight(OPENAI, tool)[1][0].startswith("Sent as files_list_all_")
    not_an_object = ToolSpec(name="x", description="", input_schema={"type": "array"})
    assert "as an object" in preflight(OPENAI, not_an_object)[0]


def test_a_tool_that_breaks_its_own_description_breaks_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def simplify(schema: Schema) -> tuple[Schema, Shape]:
        return schema, {}[schema["description"]] if "description" in schema else PLAIN

    dialect = replace(OPENAI, simplify=simplify)
    bad = ToolSpec(name="bad", description="", input_schema={"description": "unheard of"})
    box = Toolbox(dialect, [bad, spec()])
    reason = "The description of its arguments can’t be read."
    assert [(left.name, left.reason) for left in box.left_out] == [("bad", reason)]
    assert [tool.name for tool in box.tools] == ["files_list"]
    assert "KeyError" in caplog.text
    assert preflight(dialect, bad) == (reason, ())
