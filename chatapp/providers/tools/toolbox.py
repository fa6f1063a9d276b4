"""The tools of one request as a provider takes them, and the way back from its names and shapes.

One bad tool would fail the whole request, so what cannot be taken is left out, with a reason.
"""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from .argument_shape import PLAIN, Shape, arguments_from_wire, arguments_to_wire
from .events import ToolLeftOut
from .gemini_schema import simplified
from .request import ToolSpec
from .tool_schema import compile_schema
from .wire_names import NameRule, WireNames

Schema = dict[str, Any]
LARGEST_SCHEMA_CHARACTERS = 100_000
SAYS_NOTHING = {"$schema", "$id", "$defs", "definitions"}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one provider takes. `properties` is its rule for the names of arguments."""

    label: str
    names: NameRule
    properties: NameRule | None = None
    most_tools: int | None = None
    simplify: Callable[[Schema], tuple[Schema, Shape]] = lambda schema: (schema, PLAIN)


WORDS = "a-zA-Z0-9_-"
CLAUDE_PROPERTIES = NameRule(letters="a-zA-Z0-9_.-", longest=64)
OPENAI = Dialect(label="OpenAI", names=NameRule(letters=WORDS, longest=64), most_tools=128)
ANTHROPIC = Dialect(
    label="Anthropic", names=NameRule(letters=WORDS, longest=128), properties=CLAUDE_PROPERTIES
)
GEMINI = Dialect(
    label="Gemini",
    names=NameRule(letters="a-zA-Z0-9_.:-", longest=128, first="a-zA-Z_"),
    properties=NameRule(letters="a-zA-Z0-9_", longest=64, first="a-zA-Z_"),
    simplify=simplified,
)
BEDROCK = Dialect(
    label="Bedrock", names=NameRule(letters=WORDS, longest=64), properties=CLAUDE_PROPERTIES
)
DIALECTS = {
    "openai": OPENAI,
    "openai-chat": OPENAI,
    "anthropic": ANTHROPIC,
    "google": GEMINI,
    "bedrock": BEDROCK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireTool:
    """A tool under the provider's name for it."""

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
            self._put(dialect, spec)

    def _put(self, dialect: Dialect, spec: ToolSpec) -> None:
        is_full = dialect.most_tools is not None and len(self.tools) >= dialect.most_tools
        too_many = f"{dialect.label} takes at most {dialect.most_tools} tools at once."
        reason = too_many if is_full else self._fit(dialect, spec)
        if reason:
            self.left_out.append(ToolLeftOut(name=spec.name, reason=reason))

    def _fit(self, dialect: Dialect, spec: ToolSpec) -> str:
        """Take a tool in, or say why not. A service says what it likes: no description of one tool
        may cost the whole request."""
        try:
            if reason := unfit(spec):
                return reason
            schema, shape = _fitted(dialect, spec)
        except Exception:
            log.exception("The arguments of the tool %s cannot be described.", spec.name)
            return "Its description of its arguments cannot be read."
        self._shapes[spec.name] = shape
        wire = self._names.to_wire(spec.name)
        self.tools.append(WireTool(name=wire, description=spec.description, schema=schema))
        return ""

    def to_wire(self, name: str) -> str:
        """The provider's name of a tool, also of one that only the history knows."""
        return self._names.to_wire(name)

    def from_wire(self, wire: str) -> str:
        return self._names.from_wire(wire)

    def arguments_to_wire(self, name: str, text: str) -> str:
        """The arguments of an earlier call as this provider's model would have written them."""
        return arguments_to_wire(self._shapes.get(name, PLAIN), text)

    def arguments_from_wire(self, name: str, text: str) -> str:
        """What the model wrote for the tool `name` (ours), in the shape that the tool takes."""
        return arguments_from_wire(self._shapes.get(name, PLAIN), text)


def unfit(spec: ToolSpec) -> str:
    """Why no provider can take this tool; empty when each can."""
    declared = spec.input_schema.get("type", "object")
    if declared != "object" and not (isinstance(declared, list) and "object" in declared):
        return "Its service describes its arguments as something other than an object."
    if len(json.dumps(spec.input_schema)) > LARGEST_SCHEMA_CHARACTERS:
        return f"The description of its arguments is longer than {LARGEST_SCHEMA_CHARACTERS:,}."
    return ""


def preflight(dialect: Dialect, spec: ToolSpec) -> tuple[str, tuple[str, ...]]:
    """Whether a provider takes a tool: the reason why not, and what is changed for it if so."""
    wire = Toolbox(dialect, [spec])
    if wire.left_out:
        return wire.left_out[0].reason, ()
    _, shape = _fitted(dialect, spec)
    simple, _ = dialect.simplify(compile_schema(spec.input_schema))
    changes = []
    if wire.to_wire(spec.name) != spec.name:
        changes.append(f"It is called {wire.to_wire(spec.name)} there.")
    if shape.names:
        changes.append(f"Renamed arguments: {', '.join(sorted(shape.names))}.")
    if shape.inside:
        free = ", ".join(sorted(shape.inside))
        changes.append(f"Free-form arguments are written as JSON text: {free}.")
    if shape.further:
        changes.append(f"Arguments without a description are written into {shape.further}.")
    if simple != _as_said(spec.input_schema):
        changes.append("Parts of its argument description are simplified.")
    return "", tuple(changes)


def _as_said(schema: Schema) -> Schema:
    """The schema without what says nothing of the arguments, and with what goes without saying."""
    said = {key: each for key, each in schema.items() if key not in SAYS_NOTHING}
    said |= {"type": "object", "properties": schema.get("properties", {})}
    return {key: each for key, each in said.items() if key != "required" or each}


def _fitted(dialect: Dialect, spec: ToolSpec) -> tuple[Schema, Shape]:
    schema, shape = dialect.simplify(compile_schema(spec.input_schema))
    if dialect.properties is None:
        return schema, shape
    names = WireNames(dialect.properties, schema["properties"])
    renamed = {name: wire for name in schema["properties"] if (wire := names.to_wire(name)) != name}
    if not renamed:
        return schema, shape
    properties = {renamed.get(name, name): each for name, each in schema["properties"].items()}
    required = [renamed.get(name, name) for name in schema.get("required", [])]
    schema = {**schema, "properties": properties}
    schema |= {"required": required} if required else {}
    return schema, replace(shape, names=renamed)
