"""Conditions on a call's arguments, as admins write them: `amount < 100 and currency == "EUR"`.

The language is rule-engine's. Names are arguments, and `order["lines"][0]` reads nested values.

A missing value can be compared with null, as in `note == null`, and replaced, as in `amount ?? 0`.
Everything else that reads it is undecidable: in `recipient != "me"`, a missing recipient is not
another one, and a misspelt name must allow nothing.

`$mail_domain(to)` and `$host(url)` read the domain of mail addresses and the host of web
addresses, strictly (`permissions.hosts`): an address that a program could read otherwise is
undecidable.

Regular expressions are not offered, because a bad one takes unbounded time on text that a model
wrote. Loops over lists and functions that build lists of a given length are not offered for the
same reason.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import rule_engine
from django.utils.translation import gettext as _
from rule_engine import ast
from rule_engine.errors import EngineError
from rule_engine.errors import LookupError as MissingItem

from chatapp.permissions.hosts import read_address_host, read_mail_host

MAX_CHARACTERS = 1_000
MAX_VALUE_CHARACTERS = 100_000
# In a list that one of the functions reads.
MAX_ADDRESSES = 1_000
_PATTERNS = ("=~", "!~")
# Quoted strings in the syntax of the language.
_QUOTED = re.compile(r"""(["'])(?:[^\\\n]|\\.)*?\1""")
_LOOPS = re.compile(r"\bfor\b|\$\s*(?:range|map|filter|random)\b")


@dataclass(slots=True, kw_only=True)
class BadCondition(ValueError):
    """A condition that cannot be parsed. `message` is written for an admin."""

    message: str

    def __str__(self) -> str:
        return self.message


class Undecidable(Exception):
    """The condition cannot be applied to these arguments: one is missing or has another type."""


def check_condition(text: str) -> None:
    """Raise BadCondition if the text is not a valid condition."""
    if len(text) > MAX_CHARACTERS:
        raise BadCondition(
            message=_("The condition is too long. Enter at most %(count)s characters.")
            % {"count": f"{MAX_CHARACTERS:,}"}
        )
    if any(pattern in text for pattern in _PATTERNS):
        raise BadCondition(message=_("Patterns are not supported. Use == or in."))
    _compile(text)


def is_met(text: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether the condition is true for a call's arguments. Raise Undecidable if it
    cannot be evaluated."""
    try:
        return bool(_compile(text).rule.matches(_copy_bounded(arguments)))
    except (EngineError, BadCondition, ArithmeticError, TypeError, RecursionError) as error:
        raise Undecidable from error


def list_names(text: str) -> list[str]:
    """Return the names of the arguments that a valid condition uses."""
    return sorted(_compile(text).names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """A parsed condition, and the names of the arguments that it uses."""

    rule: rule_engine.Rule
    names: frozenset[str]


def _read_mail_domain(value: object) -> str:
    """Return the domain of a mail address, or of all addresses of a list. Anything else, such as a
    name beside the address or two domains, is undecidable."""
    return _read_place(value, lambda text: read_mail_host(text).removeprefix("@"))


def _read_host(value: object) -> str:
    """Return the host of a web address, or of all addresses of a list."""
    return _read_place(value, read_address_host)


def _read_place(value: object, read: Callable[[str], str]) -> str:
    texts = list(value) if isinstance(value, list | tuple) else [value]
    places = {read(text) if isinstance(text, str) else "" for text in texts}
    if len(texts) > MAX_ADDRESSES or len(places) != 1 or "" in places:
        raise Undecidable
    return places.pop()


_FUNCTIONS = {"mail_domain": _read_mail_domain, "host": _read_host}
_BUILTINS = rule_engine.builtins.Builtins.from_defaults(
    _FUNCTIONS,
    value_types={
        name: rule_engine.DataType.FUNCTION(
            name,
            return_type=rule_engine.DataType.STRING,
            argument_types=(rule_engine.DataType.UNDEFINED,),
        )
        for name in _FUNCTIONS
    },
)


@functools.lru_cache(maxsize=512)
def _compile(text: str) -> _Compiled:
    # Check this before parsing: the parser already evaluates expressions that depend on no
    # argument.
    if _LOOPS.search(_QUOTED.sub('""', text)):
        raise BadCondition(
            message=_(
                "for, $range, $map, $filter and $random are not supported. To look into a list, "
                'use in, such as: "admin" in roles.'
            )
        )
    context = rule_engine.Context(
        resolver=rule_engine.resolve_item, default_value=None, mapping_attribute_lookup=False
    )
    context.builtins = _BUILTINS
    names: set[str] = set()
    try:
        rule = rule_engine.Rule(text, context=context)
        rule.statement.expression = _guard(rule.statement.expression, names)
    except (EngineError, RecursionError) as error:
        raise BadCondition(
            message=_('This is not a condition. Example: amount < 100 and currency == "EUR".')
        ) from error
    return _Compiled(rule=rule, names=frozenset(names))


# Expressions that read a value of the call.
_READS = (
    ast.SymbolExpression,
    ast.GetItemExpression,
    ast.GetAttributeExpression,
    ast.GetSliceExpression,
)
# Attributes of expressions that hold an expression, and those that hold several.
_PARTS = (
    *("left", "right", "container", "member", "item", "object", "start", "stop"),
    *("condition", "case_true", "case_false"),
)
_SEQUENCES = ("value", "arguments")


@dataclass(slots=True, kw_only=True)
class _Read:
    """An expression that reads a value: a missing one is null, or undecidable."""

    expression: Any
    may_be_missing: bool

    def evaluate(self, thing: Any) -> Any:
        try:
            value = self.expression.evaluate(thing)
        except MissingItem:
            value = None
        if value is None and not self.may_be_missing:
            raise Undecidable
        return value


def _guard(expression: Any, names: set[str], *, may_be_missing: bool = False) -> Any:
    """Return the parsed expression with every part that reads a value as a `_Read`, and add the
    names of its arguments to `names`."""
    for name in _PARTS:
        if hasattr(part := getattr(expression, name, None), "evaluate"):
            is_optional = _allows_missing(expression, name)
            setattr(expression, name, _guard(part, names, may_be_missing=is_optional))
    for name in _SEQUENCES:
        parts = getattr(expression, name, None)
        if isinstance(parts, tuple | list) and any(hasattr(part, "evaluate") for part in parts):
            setattr(expression, name, type(parts)(_guard(part, names) for part in parts))
    if isinstance(expression, ast.SymbolExpression) and expression.scope is None:
        names.add(expression.name)
    _check_builtin(getattr(expression, "function", expression))
    if isinstance(expression, _READS):
        return _Read(expression=expression, may_be_missing=may_be_missing)
    return expression


def _check_builtin(expression: Any) -> None:
    """Raise BadCondition for a name with $ that the language does not have."""
    is_builtin = isinstance(expression, ast.SymbolExpression) and expression.scope is not None
    if is_builtin and expression.name not in _BUILTINS:
        raise BadCondition(
            message=_("There is no $%(name)s. To compare domains, use $mail_domain or $host.")
            % {"name": expression.name}
        )


def _allows_missing(expression: Any, part: str) -> bool:
    """Whether this part of the expression may be a missing value."""
    if isinstance(expression, ast.ComparisonExpression) and expression.type in ("eq", "ne"):
        return any(
            isinstance(side, ast.NullExpression) for side in (expression.left, expression.right)
        )
    if isinstance(expression, ast.CoalesceExpression):
        return part == "left"
    # `order&["lines"]` is null where there is no order.
    return part in ("container", "object") and getattr(expression, "safe", False)


def _copy_bounded(value: Any) -> Any:
    """Copy the value, and raise Undecidable if a string in it is too long to compare quickly. A
    string that was cut instead could hide what a rule looks for behind padding."""
    if isinstance(value, str) and len(value) > MAX_VALUE_CHARACTERS:
        raise Undecidable
    if isinstance(value, Mapping):
        return {_copy_bounded(str(key)): _copy_bounded(each) for key, each in value.items()}
    return [_copy_bounded(each) for each in value] if isinstance(value, list) else value
