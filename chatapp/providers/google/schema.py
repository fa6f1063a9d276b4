"""Simplifies a compiled schema to the part of JSON Schema that Gemini documents.

Other keywords become sentences of the description. Gemini drops the free properties of an object,
so that they become JSON text.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from chatapp.providers.tools.argument_shape import PLAIN, Shape
from chatapp.providers.tools.tool_schema import flatten_unions

Schema = dict[str, Any]
TAKEN = {
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "properties",
    "required",
}
ABOUT = ("title", "description")
BARE = {"integer", "number", "boolean", "null"}
# Gemini's name of the property for the free properties of an object.
FURTHER = "additional_properties"
INSIDE = {"items", "prefixItems", "anyOf", "properties"}
FORMATS = {"date-time", "date", "time", "int32", "int64", "float", "double"}
IN_WORDS = {
    "pattern": "It matches the pattern {}.",
    "minLength": "At least {} characters.",
    "maxLength": "At most {} characters.",
    "exclusiveMinimum": "More than {}.",
    "exclusiveMaximum": "Less than {}.",
    "multipleOf": "A multiple of {}.",
    "format": "Format: {}.",
    "default": "Without it: {}.",
    "const": "Always {}.",
    "enum": "One of {}.",
    "minProperties": "At least {} entries.",
    "maxProperties": "At most {} entries.",
}


def simplify_schema(schema: Schema) -> tuple[Schema, Shape]:
    """Return the schema of a tool and its shape. The root stays an object."""
    return _simplify_object(_join_parts(schema))


def _simplify_value(schema: Schema) -> tuple[Schema, Shape]:
    schema = _join_parts(schema)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        rest = {key: each for key, each in schema.items() if key not in ABOUT}
        return _simplify_union(
            _copy_texts(schema) | {"anyOf": [{**rest, "type": kind} for kind in kinds]}
        )
    if kinds == "object" or (kinds is None and schema.get("properties")):
        flat = {**flatten_unions(schema), "type": "object"}
        is_free = not flat.get("properties")
        return (
            (_build_json_text([flat]), Shape(is_json=True)) if is_free else _simplify_object(flat)
        )
    if kinds == "array":
        return _simplify_array(schema)
    if "anyOf" not in schema:
        return _simplify_keywords(schema), PLAIN
    if kinds is None:
        return _simplify_union(schema)
    typed = [_simplify_value({**each, "type": kinds})[0] for each in schema["anyOf"]]
    return {**_simplify_keywords(schema), "anyOf": typed}, PLAIN


def _simplify_object(schema: Schema) -> tuple[Schema, Shape]:
    found = {name: _simplify_value(each) for name, each in schema.get("properties", {}).items()}
    properties = {name: each for name, (each, _) in found.items()}
    shape = Shape(inside={name: own for name, (_, own) in found.items() if not own.is_plain})
    if schema.get("patternProperties") or schema.get("additionalProperties", False) is not False:
        further = FURTHER
        while further in properties:
            further += "_"
        properties[further] = _build_further_property(schema)
        shape = replace(shape, further=further, fixed=frozenset(found))
    simple = {**_simplify_keywords(schema), "properties": properties}
    if "required" in simple:
        simple["required"] = [name for name in simple["required"] if name in properties]
    return simple, shape


def _simplify_array(schema: Schema) -> tuple[Schema, Shape]:
    items, shape = _simplify_value(schema.get("items") or {})
    first = [_simplify_value(each) for each in schema.get("prefixItems", [])]
    simple = {**_simplify_keywords(schema), "items": items}
    if "prefixItems" in schema:
        simple["prefixItems"] = [each for each, _ in first]
    places = tuple(each for _, each in first)
    if shape.is_plain and all(each.is_plain for each in places):
        return simple, PLAIN
    return simple, Shape(items=None if shape.is_plain else shape, places=places)


def _simplify_union(schema: Schema) -> tuple[Schema, Shape]:
    """Simplify each branch, or use JSON text where the branches have different shapes.

    The branch of a value is not known later. Numbers, booleans and null need no JSON text.
    """
    branches = list(_iterate_branches(schema))
    found = [_simplify_value(each) for each in branches]
    shape = _find_shared_shape(found)
    if shape is not None:
        return {**_simplify_keywords(schema), "anyOf": [each for each, _ in found]}, shape
    bare = [each.get("type") in BARE for each, _ in found]
    text = _build_json_text(
        [each for each, is_bare in zip(branches, bare, strict=True) if not is_bare]
    )
    kept = [each for (each, _), is_bare in zip(found, bare, strict=True) if is_bare]
    if kept:
        return {**_simplify_keywords(schema), "anyOf": [text, *kept]}, Shape(is_json=True)
    described = _add_sentence(schema.get("description", ""), text["description"])
    return {**_copy_texts(schema), **text, "description": described}, Shape(is_json=True)


def _iterate_branches(schema: Schema) -> Iterator[Schema]:
    """Yield the branches, each with one type, also of unions inside the union."""
    for each in map(_join_parts, schema["anyOf"]):
        kinds = each.get("type")
        if isinstance(kinds, list):
            yield from ({**each, "type": kind} for kind in kinds)
        elif kinds is None and "anyOf" in each and not each.get("properties"):
            yield from _iterate_branches(
                {"anyOf": [_copy_texts(each) | inner for inner in each["anyOf"]]}
            )
        else:
            yield each


def _find_shared_shape(found: list[tuple[Schema, Shape]]) -> Shape | None:
    """Return the shape that fits all branches of a union, or None."""
    objects = [(each, shape) for each, shape in found if each.get("type") == "object"]
    lists = [shape for each, shape in found if each.get("type") == "array"]
    first = objects[0][1] if objects else PLAIN
    inside: dict[str, Shape] = {}
    for each, shape in objects:
        if (shape.further, shape.fixed) != (first.further, first.fixed):
            return None
        for name in each["properties"]:
            own = shape.inside.get(name, PLAIN)
            if inside.setdefault(name, own) != own:
                return None
    if any(shape.is_json for _, shape in found) or any(shape != lists[0] for shape in lists):
        return None
    inside = {name: own for name, own in inside.items() if not own.is_plain}
    return replace(
        lists[0] if lists else PLAIN, inside=inside, further=first.further, fixed=first.fixed
    )


def _build_json_text(schemas: list[Schema]) -> Schema:
    """Return a text in place of a value that matches one of these schemas."""
    if len(schemas) == 1 and schemas[0].get("type") == "object":
        about = f"JSON text of an object.{_describe_values(schemas[0])}"
        return {
            "type": "string",
            "description": _add_sentence(schemas[0].get("description", ""), about),
        }
    about = f"JSON text, a plain text in quotes too, that fits one of: {_to_json(schemas)}"
    return {"type": "string", "description": about}


def _build_further_property(schema: Schema) -> Schema:
    about = f"JSON text of an object with all other properties.{_describe_values(schema)}"
    return {"type": "string", "description": about}


def _describe_values(schema: Schema) -> str:
    said = ""
    if schema.get("additionalProperties") not in (None, True, False, {}):
        said = f" Its values: {_to_json(schema['additionalProperties'])}"
    if schema.get("patternProperties"):
        said += f" By patterns of their names: {_to_json(schema['patternProperties'])}"
    return said


def _copy_texts(schema: Schema) -> Schema:
    return {key: schema[key] for key in ABOUT if key in schema}


def _simplify_keywords(schema: Schema) -> Schema:
    """Return the supported keywords, and the others in the description, without nested schemas."""
    simple = {key: value for key, value in schema.items() if key in TAKEN - INSIDE}
    words = []
    for key, sentence in IN_WORDS.items():
        if key in schema and not _is_taken(key, schema[key]):
            simple.pop(key, None)
            words.append(sentence.format(_list_values(schema[key])))
    kinds = _find_types(schema)
    if "enum" in simple and "type" not in simple:
        simple["type"] = kinds.pop() if len(kinds) == 1 else "string"
    if words:
        simple["description"] = _add_sentence(simple.get("description", ""), " ".join(words))
    return simple


def _find_types(schema: Schema) -> set[str]:
    named = {str: "string", int: "integer", float: "number"}
    return {named[type(each)] for each in schema.get("enum", []) if type(each) in named}


def _is_taken(key: str, value: object) -> bool:
    if key == "enum":
        return isinstance(value, list) and len({type(each) for each in value} - {str}) == 0
    return key == "format" and value in FORMATS


def _join_parts(schema: Schema) -> Schema:
    """Read `oneOf` as `anyOf`, and join the parts of `allOf`."""
    joined = {key: value for key, value in schema.items() if key not in {"allOf", "oneOf"}}
    if "oneOf" in schema:
        joined["anyOf"] = [*joined.get("anyOf", []), *schema["oneOf"]]
    for part in map(_join_parts, schema.get("allOf", [])):
        both = {**joined.get("properties", {}), **part.get("properties", {})}
        needed = list(dict.fromkeys([*joined.get("required", []), *part.get("required", [])]))
        joined = {**part, **joined}
        joined |= {"properties": both} if both else {}
        joined |= {"required": needed} if needed else {}
    if "const" in joined and isinstance(joined["const"], str):
        joined["enum"] = [joined.pop("const")]
    return joined


def _list_values(value: object) -> str:
    return ", ".join(map(_to_json, value)) if isinstance(value, list) else _to_json(value)


def _to_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _add_sentence(description: str, words: str) -> str:
    return f"{description} {words}".strip()
