"""What Gemini demands of a request. Its fields are read in both spellings, as protobuf does."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from .demand import Broken, Value, demand, demand_bytes, demand_match, demand_text, demand_unique

NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"
PROPERTY = r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"
MEDIA = {
    *("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
    "application/pdf",
}
OUTSIDE = {"const", "pattern", "allOf", "not", "exclusiveMinimum", "exclusiveMaximum", "$schema"}


def check_gemini(body: Value) -> None:
    body = _camel(body)
    if "systemInstruction" in body:
        for part in body["systemInstruction"].get("parts") or [{}]:
            demand_text(part.get("text"), "system instruction")
    _check_tools(body.get("tools"))
    contents = body.get("contents")
    demand(isinstance(contents, list) and contents, "contents are empty")
    demand((contents or [{}])[0].get("role") == "user", "the first content is not the user's")
    asked: list[Value] = []
    before = ""
    for content in contents or []:
        role, parts = content.get("role"), content.get("parts")
        demand(role in ("user", "model"), f"role {role}")
        demand(isinstance(parts, list) and parts, "a content without parts")
        demand(role == "user" or before != "model", "two contents of the model in a row")
        _check_answers(parts, asked)
        asked = _check_model(parts) if role == "model" else _check_user(parts)
        before = str(role)
    demand(not asked, f"no response to {asked}")


def _check_answers(parts: list[Value], asked: list[Value]) -> None:
    """As many responses as calls, in their order, and nothing beside them."""
    given = [part["functionResponse"] for part in parts if "functionResponse" in part]
    demand(len(given) == len(asked), f"asked {asked}, answered {given}")
    demand(not given or len(given) == len(parts), "something beside a function response")
    for call, response in zip(asked, given, strict=True):
        same = response.get("id", call.get("id")) == call.get("id")
        demand(same and response.get("name") == call.get("name"), f"{response} answers {call}")
        value = response.get("response")
        demand(isinstance(value, dict) and value, "a response that is no object")
        demand("$ref" not in set(_keys(value)), "a reference in a response")


def _demand_bytes(value: object, where: str) -> None:
    """Protobuf reads both alphabets."""
    demand_bytes(demand_text(value, where).replace("-", "+").replace("_", "/"), where)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from chain.from_iterable(map(_keys, value))
    elif isinstance(value, dict):
        yield from value
        yield from chain.from_iterable(map(_keys, value.values()))


def _refers(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and ("$ref" in value or any(map(_refers, inner)))


def _check_user(parts: list[Value]) -> list[Value]:
    for part in parts:
        kind = _kind(part)
        demand("thoughtSignature" not in part, "a signature on what a user said")
        if kind == "inlineData":
            demand(part[kind].get("mimeType") in MEDIA, f"{part[kind].get('mimeType')}")
            _demand_bytes(part[kind].get("data"), "inline data")
        elif kind == "text":
            demand_text(part["text"], "a text part")
        elif kind != "functionResponse":
            raise Broken(f"{kind} of a user")
    return []


def _check_model(parts: list[Value]) -> list[Value]:
    """Its calls. The first of a content brings the signature back."""
    calls: list[Value] = []
    for part in parts:
        kind = _kind(part)
        if kind == "functionCall":
            call = part[kind]
            demand_match(NAME, call.get("name"), "name of a call")
            demand(isinstance(call.get("args", {}), dict), "arguments of a call")
            demand(calls or part.get("thoughtSignature"), "MISSING_THOUGHT_SIGNATURE")
            calls.append(call)
        elif kind == "text":
            demand(part["text"] or part.get("thoughtSignature"), "an empty text part")
        elif kind == "inlineData":
            demand(part[kind].get("mimeType") in MEDIA, f"{part[kind].get('mimeType')}")
            _demand_bytes(part[kind].get("data"), "a picture of the model")
        else:
            raise Broken(f"{kind} of the model")
        if "thoughtSignature" in part:
            _demand_bytes(part["thoughtSignature"], "signature")
    demand_unique([call["id"] for call in calls if call.get("id")], "ids of calls")
    return calls


def _kind(part: Value) -> str:
    kinds = part.keys() & {"text", "inlineData", "functionCall", "functionResponse"}
    demand(len(kinds) == 1, f"a part that is {sorted(kinds) or 'nothing'}")
    return kinds.pop()


def _check_tools(tools: Any) -> None:
    declared = [each for tool in tools or [] for each in tool.get("functionDeclarations", [])]
    demand(declared or not tools, "an empty list of tools")
    demand_unique([each.get("name", "") for each in declared], "names of tools")
    for each in declared:
        demand_match(NAME, each.get("name"), "name of a tool")
        schema = each.get("parametersJsonSchema")
        demand(isinstance(schema, dict) and schema.get("type") == "object", "no object schema")
        _check_schema(schema, each["name"])


def _check_schema(schema: Any, where: str) -> None:
    if isinstance(schema, list):
        for each in schema:
            _check_schema(each, where)
    if not isinstance(schema, dict):
        return
    demand(not OUTSIDE & schema.keys(), f"{where}: {sorted(OUTSIDE & schema.keys())}")
    demand(not isinstance(schema.get("type"), list), f"{where}: a list of types")
    for name, each in schema.items():
        if name == "properties":
            for key, inner in each.items():
                demand_match(PROPERTY, key, f"{where}: name of a property")
                _check_schema(inner, where)
        elif name in ("items", "anyOf", "oneOf", "prefixItems", "additionalProperties"):
            _check_schema(each, where)


def _camel(value: Any) -> Any:
    """Field names as protobuf spells them; what calls, responses and schemas hold stays."""
    if isinstance(value, list):
        return [_camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, each in value.items():
        spelled = re.sub(r"_([a-z])", lambda match: match[1].upper(), name)
        keeps = spelled in ("args", "response", "parametersJsonSchema")
        found[spelled] = each if keeps else _camel(each)
    return found
