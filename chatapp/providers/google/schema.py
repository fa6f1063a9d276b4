"""A compiled schema in the part of JSON Schema that Gemini documents; what it lacks is told in
words, and what an object has beside fixed properties, which gets lost there, is JSON text.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .argument_shape import PLAIN, Shape
from .tool_schema import flattened

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
# What Gemini calls the property for all that an object may have beside its own.
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


def simplified(schema: Schema) -> tuple[Schema, Shape]:
    """The schema of a whole tool. Its root stays an object."""
    return _object(_joined(schema))


def _value(schema: Schema) -> tuple[Schema, Shape]:
    schema = _joined(schema)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        rest = {key: each for key, each in schema.items() if key not in ABOUT}
        return _union(_about(schema) | {"anyOf": [{**rest, "type": kind} for kind in kinds]})
    if kinds == "object" or (kinds is None and schema.get("properties")):
        flat = {**flattened(schema), "type": "object"}
        is_free = not flat.get("properties")
        return (_as_json_text([flat]), Shape(is_json=True)) if is_free else _object(flat)
    if kinds == "array":
        return _array(schema)
    if "anyOf" not in schema:
        return _plain(schema), PLAIN
    if kinds is None:
        return _union(schema)
    typed = [_value({**each, "type": kinds})[0] for each in schema["anyOf"]]
    return {**_plain(schema), "anyOf": typed}, PLAIN


def _object(schema: Schema) -> tuple[Schema, Shape]:
    found = {name: _value(each) for name, each in schema.get("properties", {}).items()}
    properties = {name: each for name, (each, _) in found.items()}
    shape = Shape(inside={name: own for name, (_, own) in found.items() if not own.is_plain})
    if schema.get("patternProperties") or schema.get("additionalProperties", False) is not False:
        further = FURTHER
        while further in properties:
            further += "_"
        properties[further] = _further(schema)
        shape = replace(shape, further=further, fixed=frozenset(found))
    simple = {**_plain(schema), "properties": properties}
    if "required" in simple:
        simple["required"] = [name for name in simple["required"] if name in properties]
    return simple, shape


def _array(schema: Schema) -> tuple[Schema, Shape]:
    items, shape = _value(schema.get("items") or {})
    first = [_value(each) for each in schema.get("prefixItems", [])]
    simple = {**_plain(schema), "items": items}
    if "prefixItems" in schema:
        simple["prefixItems"] = [each for each, _ in first]
    places = tuple(each for _, each in first)
    if shape.is_plain and all(each.is_plain for each in places):
        return simple, PLAIN
    return simple, Shape(items=None if shape.is_plain else shape, places=places)


def _union(schema: Schema) -> tuple[Schema, Shape]:
    """Where one way back does not serve all branches, whatever is no number, truth value or null is
    JSON text: which branch a value belongs to is not known later."""
    branches = list(_branches(schema))
    found = [_value(each) for each in branches]
    shape = _shared(found)
    if shape is not None:
        return {**_plain(schema), "anyOf": [each for each, _ in found]}, shape
    bare = [each.get("type") in BARE for each, _ in found]
    text = _as_json_text(
        [each for each, is_bare in zip(branches, bare, strict=True) if not is_bare]
    )
    kept = [each for (each, _), is_bare in zip(found, bare, strict=True) if is_bare]
    if kept:
        return {**_plain(schema), "anyOf": [text, *kept]}, Shape(is_json=True)
    described = _told(schema.get("description", ""), text["description"])
    return {**_about(schema), **text, "description": described}, Shape(is_json=True)


def _branches(schema: Schema) -> Iterator[Schema]:
    """Each of one type, also of unions inside the union."""
    for each in map(_joined, schema["anyOf"]):
        kinds = each.get("type")
        if isinstance(kinds, list):
            yield from ({**each, "type": kind} for kind in kinds)
        elif kinds is None and "anyOf" in each and not each.get("properties"):
            yield from _branches({"anyOf": [_about(each) | inner for inner in each["anyOf"]]})
        else:
            yield each


def _shared(found: list[tuple[Schema, Shape]]) -> Shape | None:
    """The one way back for all branches of a union; None where there is none."""
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


def _as_json_text(schemas: list[Schema]) -> Schema:
    """A text in place of what fits one of these schemas."""
    if len(schemas) == 1 and schemas[0].get("type") == "object":
        about = f"JSON text of an object.{_values_of(schemas[0])}"
        return {"type": "string", "description": _told(schemas[0].get("description", ""), about)}
    about = f"JSON text, a plain text in quotes too, that fits one of: {_json(schemas)}"
    return {"type": "string", "description": about}


def _further(schema: Schema) -> Schema:
    about = f"JSON text of an object with all other properties.{_values_of(schema)}"
    return {"type": "string", "description": about}


def _values_of(schema: Schema) -> str:
    said = ""
    if schema.get("additionalProperties") not in (None, True, False, {}):
        said = f" Its values: {_json(schema['additionalProperties'])}"
    if schema.get("patternProperties"):
        said += f" By patterns of their names: {_json(schema['patternProperties'])}"
    return said


def _about(schema: Schema) -> Schema:
    return {key: schema[key] for key in ABOUT if key in schema}


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
