"""A compiled schema in the part of JSON Schema that Gemini documents; what it lacks is told in
words, and an object without fixed properties, which arrives empty there, is written as JSON text.
"""

import json
from typing import Any

from .argument_shape import PLAIN, Shape

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


def simplified(schema: Schema) -> tuple[Schema, Shape]:
    """The schema of a whole tool. Its root stays an object."""
    return _object(_joined(schema))


def _value(schema: Schema) -> tuple[Schema, Shape]:
    schema = _joined(schema)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        rest = {key: each for key, each in schema.items() if key != "type"}
        described: Schema = {key: rest.pop(key) for key in ("title", "description") if key in rest}
        return _value({**described, "anyOf": [{**rest, "type": kind} for kind in kinds]})
    if kinds == "object" and not schema.get("properties"):
        return _as_json_text(schema), Shape(is_json=True)
    if kinds == "object":
        return _object(schema)
    if kinds == "array":
        return _array(schema)
    if "anyOf" in schema:
        return _union(schema)
    return _plain(schema), PLAIN


def _object(schema: Schema) -> tuple[Schema, Shape]:
    found = {name: _value(each) for name, each in schema.get("properties", {}).items()}
    inside = {name: shape for name, (_, shape) in found.items() if not shape.is_plain}
    simple = {**_plain(schema), "properties": {name: each for name, (each, _) in found.items()}}
    if "anyOf" in schema:
        simple["anyOf"] = [_branch(each) for each in schema["anyOf"]]
    return simple, Shape(inside=inside)


def _array(schema: Schema) -> tuple[Schema, Shape]:
    simple = _plain(schema)
    items, shape = _value(schema.get("items") or {})
    simple["items"] = items
    if "prefixItems" in schema:
        # Positions may differ in shape, and one shape is kept for all: they stay as they are.
        simple["prefixItems"] = [_branch(each) for each in schema["prefixItems"]]
    return simple, Shape(items=None if shape.is_plain else shape)


def _union(schema: Schema) -> tuple[Schema, Shape]:
    """Branches keep free objects as objects: which branch a value belongs to is not known later."""
    return {**_plain(schema), "anyOf": [_branch(each) for each in schema["anyOf"]]}, PLAIN


def _branch(schema: Schema) -> Schema:
    schema = _joined(schema)
    simple = _plain(schema)
    if "properties" in schema:
        simple["properties"] = {k: _branch(each) for k, each in schema["properties"].items()}
    if "items" in schema:
        simple["items"] = _branch(schema["items"])
    if "prefixItems" in schema:
        simple["prefixItems"] = [_branch(each) for each in schema["prefixItems"]]
    if "anyOf" in schema:
        simple["anyOf"] = [_branch(each) for each in schema["anyOf"]]
    return simple


def _as_json_text(schema: Schema) -> Schema:
    inner = {k: v for k, v in schema.items() if k not in {"title", "description", "type"}}
    about = "JSON text of an object."
    if inner.get("additionalProperties") not in (None, True, False):
        about += f" Its values: {_json(inner['additionalProperties'])}"
    return {"type": "string", "description": _told(schema.get("description", ""), about)}


def _plain(schema: Schema) -> Schema:
    """What it takes as it is, and the rest in the description; schemas inside are not looked at."""
    simple = {key: value for key, value in schema.items() if key in TAKEN - INSIDE}
    words = []
    for key, sentence in IN_WORDS.items():
        if key in schema and not _is_taken(key, schema[key]):
            simple.pop(key, None)
            words.append(sentence.format(_listed(schema[key])))
    kinds = _kinds_of(schema)
    if "enum" in simple and "type" not in simple:
        simple["type"] = kinds.pop() if len(kinds) == 1 else "string"
    if words:
        simple["description"] = _told(simple.get("description", ""), " ".join(words))
    return simple


def _kinds_of(schema: Schema) -> set[str]:
    named = {str: "string", int: "integer", float: "number"}
    return {named[type(each)] for each in schema.get("enum", []) if type(each) in named}


def _is_taken(key: str, value: object) -> bool:
    if key == "enum":
        return isinstance(value, list) and len({type(each) for each in value} - {str}) == 0
    return key == "format" and value in FORMATS


def _joined(schema: Schema) -> Schema:
    """`oneOf` is read as `anyOf`; the parts of `allOf` become one."""
    joined = {key: value for key, value in schema.items() if key not in {"allOf", "oneOf"}}
    if "oneOf" in schema:
        joined["anyOf"] = [*joined.get("anyOf", []), *schema["oneOf"]]
    for part in map(_joined, schema.get("allOf", [])):
        both = {**joined.get("properties", {}), **part.get("properties", {})}
        needed = list(dict.fromkeys([*joined.get("required", []), *part.get("required", [])]))
        joined = {**part, **joined}
        joined |= {"properties": both} if both else {}
        joined |= {"required": needed} if needed else {}
    if "const" in joined and isinstance(joined["const"], str):
        joined["enum"] = [joined.pop("const")]
    return joined


def _listed(value: object) -> str:
    return ", ".join(map(_json, value)) if isinstance(value, list) else _json(value)


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _told(description: str, words: str) -> str:
    return f"{description} {words}".strip()
