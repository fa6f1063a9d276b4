"""Whether the names in a rule's condition are values of the tools that the rule matches.

A misspelt name is undecidable for every call, so the rule would never allow and always ask or
forbid.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from django.utils.translation import gettext as _

from chatapp.permissions.lazy import conditions
from chatapp.tools.core import core_tools
from mcpconfig.models import Service, ToolDefinition

Schema = Mapping[str, Any]
# Keywords of a schema under which further properties may be declared.
_BRANCHES = ("allOf", "anyOf", "oneOf")


def check_names(text: str, *, service: Service | None, tool: str, is_core: bool) -> None:
    """Raise BadCondition for a name that no tool of such a rule has. The text must be a valid
    condition. Nothing is refused while no such tool is known, or if one takes any value."""
    known: set[str] = set()
    schemas = list(_find_schemas(service, tool, is_core))
    for schema in schemas:
        if not _declares_properties(schema):
            return
        known |= _list_properties(schema)
    unknown = [name for name in conditions.list_names(text) if name not in known]
    if schemas and unknown:
        raise conditions.BadCondition(message=_describe_unknown(unknown[0], known))


def _find_schemas(service: Service | None, tool: str, is_core: bool) -> Iterable[Schema]:
    if service is None:
        yield from (own.input_schema for own in core_tools() if tool in ("", own.name))
    if is_core:
        return
    current = ToolDefinition.objects.filter(is_current=True)
    if service is not None:
        current = current.filter(service=service)
    if tool:
        current = current.filter(name=tool)
    yield from current.values_list("input_schema", flat=True)


def _declares_properties(schema: Schema) -> bool:
    """Whether the schema says which values there are. One without properties takes any."""
    return any(keyword in schema for keyword in ("properties", *_BRANCHES))


def _list_properties(schema: Schema) -> set[str]:
    """Return the names of properties. A service may have sent any JSON as its schema."""
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, Mapping) else set()
    for keyword in _BRANCHES:
        branches = schema.get(keyword)
        for branch in branches if isinstance(branches, list) else ():
            if isinstance(branch, Mapping):
                names |= _list_properties(branch)
    return names


def _describe_unknown(name: str, known: set[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if not close:
        return _("No tool of this rule has a value named “%(name)s”.") % {"name": name}
    sentence = _("No tool of this rule has a value named “%(name)s”. Did you mean “%(near)s”?")
    return sentence % {"name": name, "near": close[0]}
