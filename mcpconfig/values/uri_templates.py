"""URI templates (RFC 6570): their variables, and their expansion."""

import re
from collections.abc import Mapping

from django.utils.translation import gettext as _
from uritemplate import URITemplate

from .errors import OperationError
from .limits import LIMITS

Value = str | list[str] | dict[str, str]

_NAME = r"(?:[\w-]|%[0-9A-Fa-f]{2})+(?:\.(?:[\w-]|%[0-9A-Fa-f]{2})+)*(?:\*|:[1-9]\d{0,3})?"
_EXPRESSION = re.compile(rf"\{{[+#./;?&]?{_NAME}(?:,{_NAME})*\}}", re.ASCII)


def list_variables(template: str) -> list[str]:
    """Return the names of the variables; none if the template is invalid."""
    return list(URITemplate(template).variable_names) if _is_readable(template) else []


def list_required_variables(template: str) -> set[str]:
    """Return the variables without which the URI would have a gap: all that are not query
    parameters."""
    if not _is_readable(template):
        return set()
    lists = re.findall(r"\{(?![?&])[+#./;]?([^}]*)\}", template)
    return {name.rstrip("*").partition(":")[0] for each in lists for name in each.split(",")}


def expand(template: str, values: Mapping[str, Value]) -> str:
    """Return the URI. As in the RFC, a variable without a value expands to nothing."""
    if not _is_readable(template):
        raise _template_error(_("The service’s URI template can’t be read."))
    parsed = URITemplate(template)
    unknown = sorted(set(values) - set(parsed.variable_names))
    if unknown:
        raise _template_error(
            _("The URI template has no variable “%(name)s”.") % {"name": unknown[0]}
        )
    uri = parsed.expand(dict(values))
    if len(uri) > LIMITS.uri_characters:
        raise _template_error(_("The URI is too long."))
    return uri


def _is_readable(template: str) -> bool:
    rest = _EXPRESSION.sub("", template) if len(template) <= LIMITS.uri_characters else "{"
    return not {"{", "}"} & set(rest)


def _template_error(message: str) -> OperationError:
    return OperationError(kind="configuration", message=message, was_sent=False, is_definite=True)
