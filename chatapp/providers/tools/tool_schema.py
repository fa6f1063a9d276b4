"""Compiles the schema of a service to a form that every provider reads.

The root is an object, references are resolved, and malformed keywords are removed.
"""

import json
import re
from collections.abc import Callable
from typing import Any

MAX_NODES = 5_000
MAX_DEPTH = 64
TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}
UNIONS = ("allOf", "anyOf", "oneOf")

Schema = dict[str, Any]


def compile_schema(schema: Schema) -> Schema:
    """Return a schema that guides the model.

    The service checks the arguments itself. A lost constraint costs one failed call at most, but a
    refused schema fails every request that has it.
    """
    compiled = flatten_unions(_Compiler(schema).schema(schema, ()))
    compiled["type"] = "object"
    properties = compiled.setdefault("properties", {})
    required = [name for name in compiled.pop("required", []) if name in properties]
    return compiled | ({"required": required} if required else {})


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_pattern(value: object) -> bool:
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except (re.error, OverflowError, RecursionError):
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_json(value: object) -> bool:
    """Whether the value is strict JSON. Python also reads NaN, which no provider accepts."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


PLAIN_KEYWORDS: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("title", "description", "format"), _is_text),
    "pattern": _is_pattern,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("const", "default"), _is_json),
    "multipleOf": lambda value: isinstance(value, int | float) and _is_number(value) and value > 0,
    "uniqueItems": lambda value: isinstance(value, bool),
    "enum": lambda value: isinstance(value, list) and bool(value) and _is_json(value),
    "examples": lambda value: isinstance(value, list) and _is_json(value),
    "required": _is_names,
}


class _Compiler:
    """Walks one schema. Keeps what is well formed, and resolves local references."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0

    def schema(self, schema: object, inside: tuple[str, ...], depth: int = 0) -> Schema:
        """Compile a schema. A reference that is in `inside` is recursive, and allows anything."""
        self._nodes += 1
        if not isinstance(schema, dict) or self._nodes > MAX_NODES or depth > MAX_DEPTH:
            return {}
        if "$ref" in schema:
            return self._referenced(schema, inside, depth)
        kept: Schema = {}
        for key, value in schema.items():
            if key in PLAIN_KEYWORDS:
                if PLAIN_KEYWORDS[key](value):
                    kept[key] = value
                    self._nodes += len(repr(value)) // 64
            else:
                kept |= self._nested(key, value, inside, depth + 1)
        return kept | _add_type(schema.get("type"), kept)

    def _nested(self, key: str, value: object, inside: tuple[str, ...], depth: int) -> Schema:
        match key, value:
            case "properties", dict():
                return {key: {str(k): self.schema(v, inside, depth) for k, v in value.items()}}
            case "patternProperties", dict():
                fit = {k: v for k, v in value.items() if _is_pattern(k)}
                return {key: {k: self.schema(v, inside, depth) for k, v in fit.items()}}
            case "additionalProperties", bool():
                return {key: value}
            case "additionalProperties" | "items" | "not", dict():
                return {key: self.schema(value, inside, depth)}
            case "items" | "prefixItems", list():
                return {"prefixItems": [self.schema(each, inside, depth) for each in value]}
            case "anyOf" | "oneOf" | "allOf", list() if value:
                return {key: [self.schema(each, inside, depth) for each in value]}
        return {}

    def _referenced(self, schema: Schema, inside: tuple[str, ...], depth: int) -> Schema:
        reference = schema["$ref"]
        beside = {k: v for k, v in schema.items() if k in ("title", "description", "default")}
        target = None if reference in inside else self._target(reference)
        if target is None:
            return self.schema(beside, inside, depth + 1)
        return self.schema({**target, **beside}, (*inside, reference), depth + 1)

    def _target(self, reference: object) -> Schema | None:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: object = self._root
        for step in filter(None, reference[1:].split("/")):
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = {str(place): each for place, each in enumerate(found)}
            found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None


def _add_type(declared: object, kept: Schema) -> Schema:
    """Return the type, inferred where it is missing. An array always has `items`."""
    known = [kind for kind in _as_list(declared) if isinstance(kind, str) and kind in TYPES]
    if not known and not any(key in kept for key in (*UNIONS, "enum", "const")):
        known = ["object"] if "properties" in kept else []
        known = known or (["array"] if kept.keys() & {"items", "prefixItems"} else [])
    typed: Schema = {"type": known[0] if len(known) == 1 else known} if known else {}
    if "array" in known and "items" not in kept:
        typed["items"] = {}
    return typed


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def flatten_unions(schema: Schema) -> Schema:
    """Return an object without unions, which providers refuse at the root.

    It has the properties of all branches. Those that all branches require are required, and the
    description states the choice.
    """
    flat = {k: v for k, v in schema.items() if k not in (*UNIONS, "enum", "const", "not")}
    required = list(flat.pop("required", []))
    for union in UNIONS:
        branches = [flatten_unions(branch) for branch in schema.get(union, [])]
        for branch in branches:
            _join_branch(flat, branch)
        names = [set(branch.get("required", [])) for branch in branches]
        if union == "allOf":
            required += sorted(set().union(*names))
        elif branches:
            required += sorted(set.intersection(*names))
            _tell_choice(flat, branches)
    return flat | ({"required": list(dict.fromkeys(required))} if required else {})


def _join_branch(flat: Schema, branch: Schema) -> None:
    is_open = any(each.get("additionalProperties", False) is not False for each in (flat, branch))
    flat.pop("additionalProperties", None)
    if is_open or branch.get("patternProperties"):
        flat["additionalProperties"] = True
    known = flat.setdefault("properties", {})
    for name, schema in branch.get("properties", {}).items():
        if known.setdefault(name, schema) != schema:
            known[name] = {"anyOf": [known[name], schema]}


def _tell_choice(flat: Schema, branches: list[Schema]) -> None:
    choices = [", ".join(branch["required"]) for branch in branches if branch.get("required")]
    if len(set(choices)) > 1:
        note = "Give one of: " + "; ".join(f"({choice})" for choice in choices) + "."
        flat["description"] = " ".join(filter(None, [flat.get("description"), note]))
