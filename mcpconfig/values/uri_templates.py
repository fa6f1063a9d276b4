"""URI templates (RFC 6570): which values one takes, and the URI that they make."""

import re
from collections.abc import Mapping

from uritemplate import URITemplate

from .errors import OperationError
from .limits import LIMITS

Value = str | list[str] | dict[str, str]

_NAME = r"(?:[\w-]|%[0-9A-Fa-f]{2})+(?:\.(?:[\w-]|%[0-9A-Fa-f]{2})+)*(?:\*|:[1-9]\d{0,3})?"
_EXPRESSION = re.compile(rf"\{{[+#./;?&]?{_NAME}(?:,{_NAME})*\}}", re.ASCII)


def variables(template: str) -> list[str]:
    """The names of the values that a template takes; none, if it cannot be read."""
    return list(URITemplate(template).variable_names) if _is_readable(template) else []


def required(template: str) -> set[str]:
    """The values without which the URI would have a hole: all that are no query parameters."""
    if not _is_readable(template):
        return set()
    lists = re.findall(r"\{(?![?&])[+#./;]?([^}]*)\}", template)
    return {name.rstrip("*").partition(":")[0] for each in lists for name in each.split(",")}


def expand(template: str, values: Mapping[str, Value]) -> str:
    """The URI. As the RFC has it, a value that is not given leaves its place empty."""
    if not _is_readable(template):
        raise _wrong("The service's URI template cannot be read.")
    parsed = URITemplate(template)
    unknown = sorted(set(values) - set(parsed.variable_names))
    if unknown:
        raise _wrong(f"The URI template has no place for “{unknown[0]}”.")
    uri = parsed.expand(dict(values))
    if len(uri) > LIMITS.uri_characters:
        raise _wrong("The URI becomes too long.")
    return uri


def _is_readable(template: str) -> bool:
    rest = _EXPRESSION.sub("", template) if len(template) <= LIMITS.uri_characters else "{"
    return not {"{", "}"} & set(rest)


def _wrong(message: str) -> OperationError:
    return OperationError(kind="configuration", message=message, was_sent=False, is_definite=True)
