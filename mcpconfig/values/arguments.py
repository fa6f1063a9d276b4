"""Whether a call's arguments fit what the tool takes, so that nobody is asked about a call that its
service would only refuse.

The schema is a service's own word, so checking it is bounded: what cannot be checked in time fits,
and a person looks at it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Any

from .on_first_use import OnFirstUse

# It takes a tenth of a second, which no command that decides nothing needs.
validators = OnFirstUse("jsonschema.validators")
referencing = OnFirstUse("referencing")

MAX_DEPTH = 32
MAX_PARTS = 3_000
MAX_CHECKS = 20_000
MAX_UNIQUE_ITEMS = 200
PATTERN_TEXT = 200
MAX_SENTENCES = 3
SENTENCE_CHARACTERS = 200
VALUE_CHARACTERS = 40

# Groups, alternatives, back-references and whatever another dialect means by an escape.
_FORKS = re.compile(r"[()|]|\\[^dDsSwW.]")
_REPEATS = re.compile(r"[*+?{]")
_TYPES = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "an object",
    "null": "null",
}

Json = Any
Check = Callable[[Any, Json, Json, Json], Iterator[Any] | None]


class Unchecked(Exception):
    """Nobody can tell in time whether the arguments fit."""


class LeftOut(Exception):
    """Something was left out inside a keyword that bears no gap."""


class _Budget:
    """What one check has used; `needs_all` counts the keywords around it that bear no gap."""

    def __init__(self) -> None:
        self.checks = 0
        self.needs_all = 0

    def spend(self, *values: Json) -> None:
        self.checks += 1 + sum(len(value) for value in values if isinstance(value, list | dict))
        if self.checks > MAX_CHECKS:
            raise Unchecked


_budget: ContextVar[_Budget] = ContextVar("budget")


def misfit(arguments: str, schema: dict[str, Json]) -> str:
    """Why these arguments (a JSON object) do not fit the schema, for the model and a person; empty
    where they do, or where nobody can tell."""
    budget = _budget.set(_Budget())
    try:
        checker = _checker(schema)
        problems = sorted(islice(checker.iter_errors(json.loads(arguments)), 50), key=_weight)
        sentences = list(dict.fromkeys(_sentence(problem) for problem in problems))
    except Exception:
        # A schema that is none fails in many ways (each keyword in its own, recursion, references
        # to elsewhere); whichever it was, a person decides.
        return ""
    finally:
        _budget.reset(budget)
    return " ".join(sentences[:MAX_SENTENCES])


def _checker(schema: dict[str, Json]) -> Any:
    """A validator of the schema's own draft that spends from the budget and loads nothing."""
    _check_size(schema)
    draft = validators.validator_for(schema, default=validators.Draft202012Validator)
    draft.check_schema(schema, format_checker=None)
    # A schema that names its draft would be taken from this bounded validator to the library's own.
    bare = {key: value for key, value in schema.items() if key != "$schema"}
    return _bounded(draft)(bare, registry=referencing.Registry())


def _check_size(schema: Json) -> None:
    """Level by level, so that no depth can exhaust the stack."""
    level, parts = [schema], 0
    for depth in range(MAX_DEPTH):
        inner: list[Json] = []
        for outer in level:
            if depth and isinstance(outer, dict) and isinstance(outer.get("$schema"), str):
                raise Unchecked
            inner += outer.values() if isinstance(outer, dict) else outer
        parts += len(inner)
        level = [item for item in inner if isinstance(item, dict | list)]
        if parts > MAX_PARTS or not level:
            break
    if parts > MAX_PARTS or level:
        raise Unchecked


def _counted(check: Check) -> Check:
    def counted(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[Any]:
        _budget.get().spend(value, instance)
        yield from check(validator, value, instance, schema) or ()

    return counted


def _whole(check: Check) -> Check:
    """Checked only if nothing inside has to be left out: the gap could turn a fit into a misfit."""

    def whole(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[Any]:
        budget = _budget.get()
        budget.needs_all += 1
        try:
            errors = list(check(validator, value, instance, schema) or ())
        except LeftOut:
            if budget.needs_all > 1:
                raise
            return
        finally:
            budget.needs_all -= 1
        yield from errors

    return whole


def _guarded(name: str, is_safe: Callable[[Json, Json, Json], bool]) -> Check:
    """The keyword where it ends soon; elsewhere it is left out."""

    def guarded(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[Any]:
        if is_safe(value, instance, schema):
            stock = validators.Draft202012Validator.VALIDATORS[name]
            yield from stock(validator, value, instance, schema) or ()
        elif _budget.get().needs_all:
            raise LeftOut

    return guarded


def _is_plain(pattern: Json, text: Json, _schema: Json) -> bool:
    """A pattern is the service's own program: only one that cannot fork is run, on a short text."""
    if not isinstance(text, str):
        return True
    is_plain = not _FORKS.search(pattern) and len(_REPEATS.findall(pattern)) <= 2
    return is_plain and len(text) <= PATTERN_TEXT


GUARDED = {
    "pattern": _guarded("pattern", _is_plain),
    "patternProperties": _guarded("patternProperties", lambda *_: False),
    "additionalProperties": _guarded(
        "additionalProperties", lambda _value, _items, schema: "patternProperties" not in schema
    ),
    "uniqueItems": _guarded(
        "uniqueItems",
        lambda _value, items, _: not isinstance(items, list) or len(items) <= MAX_UNIQUE_ITEMS,
    ),
}
DRAFTS = {f"Draft{number}Validator" for number in ("4", "6", "7", "201909", "202012")}
NEEDS_ALL = ("not", "if", "oneOf", "contains", "unevaluatedItems", "unevaluatedProperties")


@cache
def _bounded(draft: Any) -> Any:
    """The draft with every keyword counted, and left out where it could take long."""
    if draft.__name__ not in DRAFTS:
        raise Unchecked
    checks: dict[str, Check] = draft.VALIDATORS | GUARDED
    checks |= {name: _whole(checks[name]) for name in NEEDS_ALL if name in checks}
    return validators.extend(draft, {name: _counted(check) for name, check in checks.items()})


def _sentence(error: Any) -> str:
    said = _said(error)
    is_long = len(said) > SENTENCE_CHARACTERS
    return f"{said[:SENTENCE_CHARACTERS]}…" if is_long else f"{said}."


def _said(error: Any) -> str:
    where = _path(error.absolute_path)
    match error.validator:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            names = ", ".join(_path([*error.absolute_path, name]) for name in missing)
            return f"Required: {names} {'is' if len(missing) == 1 else 'are'} missing"
        case "type" | "anyOf" | "oneOf" if types := _types(error):
            words = " or ".join(_TYPES[name] for name in dict.fromkeys(types))
            return f"{where} must be {words}, not {_shown(error.instance)}"
        case "enum":
            choices = ", ".join(_shown(value) for value in error.validator_value)
            return f"{where} must be one of {choices}"
        case "additionalProperties":
            known = error.schema.get("properties", {})
            extra = [name for name in error.instance if name not in known]
            names = ", ".join(_path([*error.absolute_path, name]) for name in extra)
            return f"Not known: {names}"
        case "anyOf" | "oneOf":
            return f"{where} has none of the forms that it may have"
        case _:
            return f"{where} does not fit: {error.message}"


def _types(error: Any) -> list[str]:
    """The types that a value may have, where nothing but its type is wrong."""
    if error.validator == "type":
        allowed = error.validator_value
        return allowed if isinstance(allowed, list) else [allowed]
    if any(inner.validator != "type" or inner.path for inner in error.context):
        return []
    return [name for inner in error.context for name in _types(inner)]


def _shown(value: Json) -> str:
    if isinstance(value, list | dict):
        return _TYPES["array" if isinstance(value, list) else "object"]
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}…"


def _path(path: Iterable[str | int]) -> str:
    """Where in the arguments: `filter.names[0]`."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.lstrip(".") or "The value"


def _weight(error: Any) -> bool:
    """What is missing comes first."""
    return bool(error.validator != "required")
