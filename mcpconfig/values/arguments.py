"""Check a call's arguments against the tool's input schema, so that no person is asked to approve a
call that the service would refuse.

The schema is untrusted, so the check is bounded. Arguments that cannot be checked within the bounds
count as fitting, and a person decides.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .lazy_module import LazyModule

# Importing them takes a tenth of a second, which most commands do not need.
validators = LazyModule("jsonschema.validators")
referencing = LazyModule("referencing")

MAX_DEPTH = 32
MAX_PARTS = 3_000
MAX_CHECKS = 20_000
MAX_UNIQUE_ITEMS = 200
MAX_PATTERN_CHARACTERS = 200
MAX_SENTENCES = 3
MAX_SENTENCE_CHARACTERS = 200
MAX_VALUE_CHARACTERS = 40

# Groups, alternatives, back-references, and escapes that differ between dialects.
_BRANCHES = re.compile(r"[()|]|\\[^dDsSwW.]")
_REPEATS = re.compile(r"[*+?{]")
_TYPES = {
    "string": gettext_lazy("text"),
    "boolean": gettext_lazy("true or false"),
    "integer": gettext_lazy("a whole number"),
    "number": gettext_lazy("a number"),
    "array": gettext_lazy("a list"),
    "object": gettext_lazy("an object"),
    "null": "null",
}

Json = Any
Check = Callable[[Any, Json, Json, Json], Iterator[Any] | None]


class CheckAborted(Exception):
    """The check is too expensive, or the schema has a part that is not supported."""


class KeywordSkipped(Exception):
    """A part was left out inside a keyword whose result needs all of its parts."""


class _Budget:
    """The cost of one check so far; `needs_all` counts the enclosing keywords that need all of
    their parts."""

    def __init__(self) -> None:
        self.checks = 0
        self.needs_all = 0

    def spend(self, *values: Json) -> None:
        self.checks += 1 + sum(len(value) for value in values if isinstance(value, list | dict))
        if self.checks > MAX_CHECKS:
            raise CheckAborted


_budget: ContextVar[_Budget] = ContextVar("budget")


def describe_mismatch(arguments: str, schema: dict[str, Json]) -> str:
    """Return why these arguments (a JSON object) do not fit the schema, in sentences for the model
    and a person. The text is empty if they fit, or if the check cannot decide."""
    budget = _budget.set(_Budget())
    try:
        checker = _build_validator(schema)
        problems = sorted(
            islice(checker.iter_errors(json.loads(arguments)), 50), key=_is_less_urgent
        )
        sentences = list(dict.fromkeys(_build_sentence(problem) for problem in problems))
    except Exception:
        # An invalid schema fails in many ways (each keyword in its own, recursion, outside
        # references). In all of them a person decides.
        return ""
    finally:
        _budget.reset(budget)
    return " ".join(sentences[:MAX_SENTENCES])


def drop_refused_nulls(arguments: str, schema: dict[str, Json]) -> str:
    """Return these arguments (a JSON object) without each null that the schema refuses for a
    property that is not required. Models write null for a value that is not given.

    Arguments that keep all their values come back unchanged, to the letter.
    """
    if "null" not in arguments:
        return arguments
    budget = _budget.set(_Budget())
    try:
        value = json.loads(arguments)
        kept = _drop_nulls(value, schema, _build_validator(schema))
        return arguments if kept == value else json.dumps(kept, ensure_ascii=False, allow_nan=False)
    except Exception:
        # As above: what cannot be checked stays as it is.
        return arguments
    finally:
        _budget.reset(budget)


def _drop_nulls(value: Json, schema: Json, checker: Any) -> Json:
    """`checker` is the validator of the whole schema, in which references are resolved."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, list):
        return [_drop_nulls(each, schema.get("items"), checker) for each in value]
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return value
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return {
        name: _drop_nulls(each, properties.get(name), checker)
        for name, each in value.items()
        if each is not None
        or name in needed
        or not any(checker.descend(None, properties.get(name, True)))
    }


def _build_validator(schema: dict[str, Json]) -> Any:
    """Return a validator of the schema's own draft that spends from the budget and loads no
    reference."""
    _check_size(schema)
    draft = validators.validator_for(schema, default=validators.Draft202012Validator)
    draft.check_schema(schema, format_checker=None)
    # With `$schema` the library would replace this bounded validator by its own.
    bare = {key: value for key, value in schema.items() if key != "$schema"}
    return _extend_draft(draft)(bare, registry=referencing.Registry())


def _check_size(schema: Json) -> None:
    """Raise CheckAborted for a schema that is too deep or too large. Works level by level, so that
    no depth exhausts the stack."""
    level, parts = [schema], 0
    for depth in range(MAX_DEPTH):
        inner: list[Json] = []
        for outer in level:
            if depth and isinstance(outer, dict) and isinstance(outer.get("$schema"), str):
                raise CheckAborted
            inner += outer.values() if isinstance(outer, dict) else outer
        parts += len(inner)
        level = [item for item in inner if isinstance(item, dict | list)]
        if parts > MAX_PARTS or not level:
            break
    if parts > MAX_PARTS or level:
        raise CheckAborted


def _count_checks(check: Check) -> Check:
    def counted(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[Any]:
        _budget.get().spend(value, instance)
        yield from check(validator, value, instance, schema) or ()

    return counted


def _require_complete(check: Check) -> Check:
    """Apply the keyword only if all of its parts can be checked. A missing part could turn fitting
    arguments into a mismatch."""

    def whole(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[Any]:
        budget = _budget.get()
        budget.needs_all += 1
        try:
            errors = list(check(validator, value, instance, schema) or ())
        except KeywordSkipped:
            if budget.needs_all > 1:
                raise
            return
        finally:
            budget.needs_all -= 1
        yield from errors

    return whole


def _guard_keyword(name: str, is_safe: Callable[[Json, Json, Json], bool]) -> Check:
    """Apply the keyword where its cost is bounded, and skip it elsewhere."""

    def guarded(validator: Any, value: Json, instance: Json, schema: Json) -> Iterator[Any]:
        if is_safe(value, instance, schema):
            stock = validators.Draft202012Validator.VALIDATORS[name]
            yield from stock(validator, value, instance, schema) or ()
        elif _budget.get().needs_all:
            raise KeywordSkipped

    return guarded


def _is_safe_pattern(pattern: Json, text: Json, _schema: Json) -> bool:
    """Only a pattern that cannot backtrack is run, and only on a short text."""
    if not isinstance(text, str):
        return True
    is_plain = not _BRANCHES.search(pattern) and len(_REPEATS.findall(pattern)) <= 2
    return is_plain and len(text) <= MAX_PATTERN_CHARACTERS


GUARDED_KEYWORDS = {
    "pattern": _guard_keyword("pattern", _is_safe_pattern),
    "patternProperties": _guard_keyword("patternProperties", lambda *_: False),
    "additionalProperties": _guard_keyword(
        "additionalProperties", lambda _value, _items, schema: "patternProperties" not in schema
    ),
    "uniqueItems": _guard_keyword(
        "uniqueItems",
        lambda _value, items, _: not isinstance(items, list) or len(items) <= MAX_UNIQUE_ITEMS,
    ),
}
DRAFTS = {f"Draft{number}Validator" for number in ("4", "6", "7", "201909", "202012")}
COMPLETE_KEYWORDS = ("not", "if", "oneOf", "contains", "unevaluatedItems", "unevaluatedProperties")


@cache
def _extend_draft(draft: Any) -> Any:
    """Return the draft with every keyword counted, and with the expensive ones guarded."""
    if draft.__name__ not in DRAFTS:
        raise CheckAborted
    checks: dict[str, Check] = draft.VALIDATORS | GUARDED_KEYWORDS
    checks |= {
        name: _require_complete(checks[name]) for name in COMPLETE_KEYWORDS if name in checks
    }
    return validators.extend(draft, {name: _count_checks(check) for name, check in checks.items()})


def _build_sentence(error: Any) -> str:
    said = _describe_error(error)
    is_long = len(said) > MAX_SENTENCE_CHARACTERS
    return f"{said[:MAX_SENTENCE_CHARACTERS]}…" if is_long else f"{said}."


def _describe_error(error: Any) -> str:
    where = _format_path(error.absolute_path)
    match error.validator:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            names = ", ".join(_format_path([*error.absolute_path, name]) for name in missing)
            return _("Missing: %(names)s") % {"names": names}
        case "type" | "anyOf" | "oneOf" if types := _list_allowed_types(error):
            words = _(" or ").join(str(_TYPES[name]) for name in dict.fromkeys(types))
            return _("%(place)s must be %(types)s, not %(value)s") % {
                "place": where,
                "types": words,
                "value": _format_value(error.instance),
            }
        case "enum":
            choices = ", ".join(_format_value(value) for value in error.validator_value)
            return _("%(place)s must be one of %(choices)s") % {"place": where, "choices": choices}
        case "additionalProperties":
            known = error.schema.get("properties", {})
            extra = [name for name in error.instance if name not in known]
            names = ", ".join(_format_path([*error.absolute_path, name]) for name in extra)
            return _("Unknown: %(names)s") % {"names": names}
        case "anyOf" | "oneOf":
            return _("%(place)s matches none of the allowed forms") % {"place": where}
        case _:
            return _("%(place)s does not fit: %(reason)s") % {
                "place": where,
                "reason": error.message,
            }


def _list_allowed_types(error: Any) -> list[str]:
    """Return the types that the value may have, if its type is the only mismatch."""
    if error.validator == "type":
        allowed = error.validator_value
        return allowed if isinstance(allowed, list) else [allowed]
    if any(inner.validator != "type" or inner.path for inner in error.context):
        return []
    return [name for inner in error.context for name in _list_allowed_types(inner)]


def _format_value(value: Json) -> str:
    if isinstance(value, list | dict):
        return str(_TYPES["array" if isinstance(value, list) else "object"])
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}…"


def _format_path(path: Iterable[str | int]) -> str:
    """Return a place in the arguments, for example `filter.names[0]`."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.lstrip(".") or _("(the value)")


def _is_less_urgent(error: Any) -> bool:
    """Sort key: missing values come first."""
    return bool(error.validator != "required")
