"""Arguments and answers for a service that is tested without a person."""

import json
from typing import Any

from mcpconfig.values.arguments import describe_mismatch
from mcpconfig.values.results import Answer, InputRequest

_VALUES: dict[str, Any] = {
    "string": "text",
    "integer": 5,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}


def example(schema: dict[str, Any]) -> dict[str, Any]:
    """A value for each argument that the schema requires; where that does not fit, as with
    conditions, for each argument that it describes itself."""
    properties = schema.get("properties", {})
    least = {name: _value(properties.get(name, {})) for name in schema.get("required", ())}
    if not describe_mismatch(json.dumps(least), schema):
        return least
    return {name: _value(field) for name, field in properties.items() if "$ref" not in field}


async def agrees(request: InputRequest) -> Answer:
    """Return the form with its default values."""
    fields: dict[str, Any] = request.schema.get("properties", {})
    content = {name: field.get("default", _value(field)) for name, field in fields.items()}
    return Answer(action="accept", content=content)


def _value(schema: dict[str, Any]) -> Any:
    if "oneOf" in schema:
        return schema["oneOf"][0]["const"]
    if "enum" in schema:
        return schema["enum"][0]
    return _VALUES.get(schema.get("type", "string"), "text")
