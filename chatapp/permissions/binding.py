"""The canonical form of a call's arguments, and the hash that binds a decision to what was
shown."""

import hashlib
import json
import math
from typing import Any, NoReturn

import rfc8785
from django.utils.translation import gettext

from chatapp.permissions.reasons import gettext_noop

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
# JSON numbers above this limit are not exact in every implementation, so a service might use
# another value.
MAX_INTEGER = 2**53 - 1
_FIRST_WITH_EXPONENT = 1e21

Json = Any  # what `json.loads` gives


class UnreadableArguments(ValueError):
    """Arguments that cannot be shown and sent exactly. The text is English, for models and
    programs; `sentence` is for people. `template` is marked with `gettext_noop`."""

    def __init__(self, template: str, **values: object) -> None:
        super().__init__(template % values if values else template)
        self.template = template
        self.values = values

    @property
    def sentence(self) -> str:
        text = gettext(self.template)
        return text % self.values if self.values else text


def canonical_arguments(text: str) -> str:
    """Return the model's JSON object in RFC 8785 form. An empty text means no arguments."""
    if _count_bytes(text) > MAX_BYTES:
        raise UnreadableArguments(gettext_noop("The arguments are larger than 256 KB."))
    if not text.strip():
        return "{}"
    value = _parse_json(text)
    if not isinstance(value, dict):
        raise UnreadableArguments(gettext_noop("The arguments are not a JSON object."))
    _check_depth(value)
    try:
        return rfc8785.dumps(value).decode()
    except (rfc8785.CanonicalizationError, UnicodeError) as error:
        raise UnreadableArguments(gettext_noop("The arguments contain invalid text.")) from error


def binding_hash(
    *,
    service_id: int,
    endpoint: str,
    tool_name: str,
    definition_hash: str,
    arguments: str,
    person_id: int,
    call_id: str,
) -> str:
    """Return the hash of everything that a decision covers. `arguments` is the canonical text."""
    shown: dict[str, Any] = {
        "service": service_id,
        "endpoint": endpoint,
        "tool": tool_name,
        "definition": definition_hash,
        "arguments": arguments,
        "person": person_id,
        "call": call_id,
    }
    return hashlib.sha256(rfc8785.dumps(shown)).hexdigest()


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _parse_json(text: str) -> Json:
    try:
        return json.loads(
            text,
            object_pairs_hook=_build_object,
            parse_int=_parse_integer,
            parse_float=_parse_number,
            parse_constant=_refuse_constant,
        )
    except UnreadableArguments:
        raise
    except RecursionError as error:
        raise _too_deep_error() from error
    except ValueError as error:
        raise UnreadableArguments(gettext_noop("The arguments are not valid JSON.")) from error


def _build_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Refuse duplicate names, because JSON parsers disagree about which value counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableArguments(gettext_noop("The arguments contain the same name twice."))
    return found


def _parse_integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_INTEGER:
        raise _too_large_error(text)
    return int(text)


def _parse_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or MAX_INTEGER < abs(number) < _FIRST_WITH_EXPONENT:
        raise _too_large_error(text)
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise UnreadableArguments(
        gettext_noop("The arguments contain %(text)s, which is not a JSON number."), text=text
    )


def _too_large_error(text: str) -> UnreadableArguments:
    return UnreadableArguments(
        gettext_noop("The number %(number)s is too large to send exactly. Put it in quotes."),
        number=text[:40],
    )


def _too_deep_error() -> UnreadableArguments:
    return UnreadableArguments(
        gettext_noop("The arguments are nested more than %(depth)s levels deep."), depth=MAX_DEPTH
    )


def _check_depth(value: Json) -> None:
    """Check the depth level by level, without recursion, so that deep nesting cannot exhaust the
    stack."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _list_containers(outer)]
        if not level:
            return
    raise _too_deep_error()


def _list_containers(value: Json) -> list[Json]:
    inner = value.values() if isinstance(value, dict) else value
    return [item for item in inner if isinstance(item, dict | list)]
