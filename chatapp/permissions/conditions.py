"""Conditions on a call's arguments, as admins write them: `amount < 100 and currency == "EUR"`.

The language is rule-engine's: names are arguments, `order["lines"][0]` reaches into them, what is
not there is null. Patterns are not offered: a bad one takes for ever on a text that a model wrote.
Nor is what goes through lists again and again, or makes one as long as a value says.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rule_engine
from rule_engine.errors import EngineError

LONGEST = 1_000
MOST_CHARACTERS = 100_000
_PATTERNS = ("=~", "!~")
# As the language has texts in quotes.
_QUOTED = re.compile(r"""(["'])(?:[^\\\n]|\\.)*?\1""")
_LOOPS = re.compile(r"\bfor\b|\$\s*(?:range|map|filter|random)\b")


@dataclass(slots=True, kw_only=True)
class BadCondition(ValueError):
    """A condition that cannot be read; `message` says so to an admin."""

    message: str

    def __str__(self) -> str:
        return self.message


class Undecidable(Exception):
    """The condition cannot be applied to these arguments: they lack something, or are of another
    kind."""


def check(text: str) -> None:
    """Raise BadCondition where this is no condition."""
    if len(text) > LONGEST:
        raise BadCondition(message=f"Keep the condition under {LONGEST:,} characters.")
    if any(pattern in text for pattern in _PATTERNS):
        raise BadCondition(message="Comparing with a pattern is not offered. Use == or in.")
    _compiled(text)


def holds(text: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the condition is true of a call's arguments. Raises Undecidable."""
    try:
        return bool(_compiled(text).matches(_bounded(arguments)))
    except (EngineError, BadCondition, ArithmeticError, TypeError, RecursionError) as error:
        raise Undecidable from error


@functools.lru_cache(maxsize=512)
def _compiled(text: str) -> rule_engine.Rule:
    # Before it is read: reading already works out what depends on no argument.
    if _LOOPS.search(_QUOTED.sub('""', text)):
        raise BadCondition(
            message="Going through lists with for, $range, $map or $filter is not offered, nor is "
            '$random. Use in, as in: "admin" in roles.'
        )
    context = rule_engine.Context(
        resolver=rule_engine.resolve_item, default_value=None, mapping_attribute_lookup=False
    )
    try:
        return rule_engine.Rule(text, context=context)
    except (EngineError, RecursionError) as error:
        message = "This is not a condition. Write it like: amount < 100 and currency == “EUR”."
        raise BadCondition(message=message.replace("“", '"').replace("”", '"')) from error


def _bounded(value: Any) -> Any:
    """The value as it is. What is too long to be compared quickly cannot be told: cut, it could
    hide behind padding what a rule looks for."""
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise Undecidable
    if isinstance(value, Mapping):
        return {_bounded(str(key)): _bounded(each) for key, each in value.items()}
    return [_bounded(each) for each in value] if isinstance(value, list) else value
