"""How a rule is broken, and the small demands that several APIs share."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Value = dict[str, Any]


class Broken(Exception):
    """A request that the provider would refuse. The text says why."""


def broken(check: Callable[[Value], None], body: Value) -> Iterator[str]:
    """Why a body is refused, if it is."""
    try:
        check(body)
    except Broken as problem:
        yield str(problem)


def demand(holds: object, why: str) -> None:
    if not holds:
        raise Broken(why)


def demand_text(value: object, where: str) -> str:
    demand(isinstance(value, str) and value != "", f"{where} is no text, or an empty one")
    return str(value)


def demand_words(value: object, where: str) -> str:
    demand(demand_text(value, where).strip(), f"{where} is white space alone")
    return str(value)


def demand_match(pattern: str, value: object, where: str) -> None:
    demand(isinstance(value, str) and re.fullmatch(pattern, value), f"{where}: {value!r}")


def demand_bytes(value: object, where: str) -> bytes:
    text = demand_text(value, where)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Broken(f"{where} is no base64") from None


def demand_data_url(value: object, types: Iterable[str], where: str) -> None:
    head, comma, data = demand_text(value, where).partition(",")
    demand(comma and head in {f"data:{each};base64" for each in types}, f"{where} is {head}")
    demand(demand_bytes(data, where), f"{where} holds nothing")


def demand_object_text(value: object, where: str) -> None:
    if value == "":
        return
    try:
        parsed = json.loads(demand_text(value, where))
    except ValueError:
        raise Broken(f"{where} is no JSON") from None
    demand(isinstance(parsed, dict), f"{where} is no object")


def demand_unique(values: Sequence[str], where: str) -> None:
    demand(len(values) == len(set(values)), f"{where} are not unique: {values}")


def demand_only(value: Value, known: set[str], where: str) -> None:
    demand(value.keys() <= known, f"{where} has {sorted(value.keys() - known)}")


def demand_schema(schema: object, where: str) -> None:
    demand(isinstance(schema, dict) and schema.get("type") == "object", f"{where} is no object")
    unions = {"oneOf", "anyOf", "allOf", "enum", "const", "not"}
    demand(not unions & set(schema or {}), f"{where} has a union at its root")  # type: ignore[call-overload]
    try:
        json.dumps(schema, allow_nan=False)
    except ValueError:
        raise Broken(f"{where} holds a number that JSON does not have") from None
