"""The tools of one request in a provider's format, and the way back to our names and shapes.

One bad tool would fail the whole request, so that it is left out with a reason.
"""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.translation import gettext as _

from chatapp.providers.events import ToolLeftOut
from chatapp.providers.request import ToolSpec

from .argument_shape import PLAIN, Shape, arguments_from_wire, arguments_to_wire
from .tool_schema import compile_schema
from .wire_names import NameRule, WireNames

Schema = dict[str, Any]
MAX_SCHEMA_CHARACTERS = 100_000
KEYWORDS_WITHOUT_MEANING = {"$schema", "$id", "$defs", "definitions"}
# Keywords with schemas for the same value.
UNIONS = {"anyOf", "oneOf", "allOf"}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one provider takes. `properties` is the rule for the names of arguments."""

    label: str
    names: NameRule
    properties: NameRule | None = None
    most_tools: int | None = None
    simplify: Callable[[Schema], tuple[Schema, Shape]] = lambda schema: (schema, PLAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireTool:
    """A tool under the provider's name."""

    name: str
    description: str
    schema: Schema


class Toolbox:
    """The tools of one request. `tools` go to the provider, `left_out` to the people."""

    def __init__(self, dialect: Dialect, specs: Iterable[ToolSpec]) -> None:
        specs = tuple(specs)
        self._names = WireNames(dialect.names, (spec.name for spec in specs))
        self._shapes: dict[str, Shape] = {}
        self.tools: list[WireTool] = []
        self.left_out: list[ToolLeftOut] = []
        for spec in specs:
            self._add(dialect, spec)

    def _add(self, dialect: Dialect, spec: ToolSpec) -> None:
        if dialect.most_tools is not None and len(self.tools) >= dialect.most_tools:
            sentence = _("%(provider)s accepts at most %(count)s tools at once.")
            reason = sentence % {"provider": dialect.label, "count": dialect.most_tools}
        else:
            reason = self._fit(dialect, spec)
        if reason:
            self.left_out.append(ToolLeftOut(name=spec.name, reason=reason))

    def _fit(self, dialect: Dialect, spec: ToolSpec) -> str:
        """Add a tool, or return why not. No description of a service may fail the whole request."""
        fitted = _FITTED.setdefault(spec, {})
        if dialect not in fitted:
            try:
                if reason := find_obstacle(spec):
                    return reason
                fitted[dialect] = _fit_schema(dialect, spec)
            except Exception:
                log.exception("The arguments of the tool %s cannot be described.", spec.name)
                return _("The description of its arguments can’t be read.")
        schema, self._shapes[spec.name] = fitted[dialect]
        wire = self._names.to_wire(spec.name)
        self.tools.append(WireTool(name=wire, description=spec.description, schema=schema))
        return ""

    def to_wire(self, name: str) -> str:
        """Return the provider's name of a tool, also of one that only the history has."""
        return self._names.to_wire(name)

    def from_wire(self, wire: str) -> str:
        return self._names.from_wire(wire)

    def arguments_to_wire(self, name: str, text: str) -> str:
        """Return the arguments of an earlier call as this provider's model would write them."""
        return arguments_to_wire(self._shapes.get(name, PLAIN), text)

    def arguments_from_wire(self, name: str, text: str) -> str:
        """Return the model's arguments for the tool `name` (ours) in the shape of the tool."""
        return arguments_from_wire(self._shapes.get(name, PLAIN), text)


# The schemas that providers got, which nobody changes, with their shapes.
_FITTED: WeakKeyDictionary[ToolSpec, dict[Dialect, tuple[Schema, Shape]]] = WeakKeyDictionary()


def find_obstacle(spec: ToolSpec) -> str:
    """Return why no provider takes this tool, or an empty text."""
    declared = spec.input_schema.get("type", "object")
    if declared != "object" and not (isinstance(declared, list) and "object" in declared):
        return _("The service does not describe its arguments as an object.")
    if len(json.dumps(spec.input_schema)) > MAX_SCHEMA_CHARACTERS:
        return _("The description of its arguments is longer than %(count)s characters.") % {
            "count": intcomma(MAX_SCHEMA_CHARACTERS)
        }
    return ""


def preflight(dialect: Dialect, spec: ToolSpec) -> tuple[str, tuple[str, ...]]:
    """Return why a provider refuses a tool, or an empty text and what is changed for it."""
    wire = Toolbox(dialect, [spec])
    if wire.left_out:
        return wire.left_out[0].reason, ()
    _schema, shape = _fit_schema(dialect, spec)
    simple, simplified = dialect.simplify(compile_schema(spec.input_schema))
    changes = []
    if wire.to_wire(spec.name) != spec.name:
        changes.append(_("Sent as %(name)s.") % {"name": wire.to_wire(spec.name)})
    if renamed := shape.list_renamed():
        changes.append(_("Renamed arguments: %(names)s.") % {"names": ", ".join(sorted(renamed))})
    if simplified.inside:
        free = ", ".join(sorted(simplified.inside))
        changes.append(
            _("Free-form arguments are written as JSON text: %(names)s.") % {"names": free}
        )
    if shape.further:
        changes.append(
            _("Arguments without a description are written into %(name)s.")
            % {"name": shape.further}
        )
    if simple != _normalise(spec.input_schema):
        changes.append(_("Parts of its argument description are simplified."))
    return "", tuple(changes)


def _normalise(schema: Schema) -> Schema:
    """Return the schema without keywords that do not affect arguments, and with implied ones."""
    said = {key: each for key, each in schema.items() if key not in KEYWORDS_WITHOUT_MEANING}
    said |= {"type": "object", "properties": schema.get("properties", {})}
    return {key: each for key, each in said.items() if key != "required" or each}


def _fit_schema(dialect: Dialect, spec: ToolSpec) -> tuple[Schema, Shape]:
    schema, shape = dialect.simplify(compile_schema(spec.input_schema))
    if dialect.properties is None:
        return schema, shape
    return _rename_properties(dialect.properties, schema, shape)


def _rename_properties(rule: NameRule, schema: Schema, shape: Shape) -> tuple[Schema, Shape]:
    """Give each property a name that the provider takes, also in lists and alternatives."""
    if not isinstance(schema, dict):
        return schema, shape
    schema, shape = _rename_own_properties(rule, schema, shape)
    for keyword in UNIONS & schema.keys():
        branches = []
        for each in schema[keyword]:
            branch, shape = _rename_properties(rule, each, shape)
            branches.append(branch)
        schema[keyword] = branches
    if "items" in schema:
        schema["items"], items = _rename_properties(rule, schema["items"], shape.items or PLAIN)
        shape = replace(shape, items=None if items.is_plain else items)
    if "prefixItems" in schema:
        known = shape.list_places(len(schema["prefixItems"]))
        pairs = [
            _rename_properties(rule, each, place)
            for each, place in zip(schema["prefixItems"], known, strict=True)
        ]
        schema["prefixItems"] = [each for each, _ in pairs]
        if not all(place.is_plain for _, place in pairs):
            shape = replace(shape, places=tuple(place for _, place in pairs))
    return schema, shape


def _rename_own_properties(rule: NameRule, schema: Schema, shape: Shape) -> tuple[Schema, Shape]:
    schema, properties = dict(schema), schema.get("properties", {})
    names = WireNames(rule, properties)
    renamed = {name: wire for name in properties if (wire := names.to_wire(name)) != name}
    # An alternative may demand a property that is described outside of it.
    renamed = shape.names | renamed
    inside, wire_properties = dict(shape.inside), {}
    for name, each in properties.items():
        wire_properties[renamed.get(name, name)], within = _rename_properties(
            rule, each, inside.get(name, PLAIN)
        )
        if not within.is_plain:
            inside[name] = within
    if properties:
        schema["properties"] = wire_properties
    if required := [renamed.get(name, name) for name in schema.get("required", [])]:
        schema["required"] = required
    return schema, replace(shape, names=renamed, inside=inside)
