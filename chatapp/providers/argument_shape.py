"""How the arguments that a model sees differ from those that a tool takes, and the way back."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What was changed at one place of a schema. `names` are the wire's names of the properties
    that had to be renamed; `is_json` says that the value is written as JSON text there."""

    names: dict[str, str] = field(default_factory=dict)
    inside: dict[str, "Shape"] = field(default_factory=dict)
    items: "Shape | None" = None
    is_json: bool = False

    @property
    def is_plain(self) -> bool:
        return not (self.names or self.inside or self.items or self.is_json)


def arguments_from_wire(shape: Shape, text: str) -> str:
    """What the model wrote, in the tool's own shape; to the byte as it was where none differs."""
    return text if shape.is_plain else _mapped(text, lambda value: _back(shape, value))


def arguments_to_wire(shape: Shape, text: str) -> str:
    """The arguments of an earlier call as the model would have written them."""
    return text if shape.is_plain else _mapped(text, lambda value: _forth(shape, value))


def _mapped(text: str, change: Callable[[object], object]) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(change(value), ensure_ascii=False)


def _back(shape: Shape, value: object) -> object:
    if shape.is_json and isinstance(value, str):
        return _read(value)
    if isinstance(value, list) and shape.items is not None:
        return [_back(shape.items, each) for each in value]
    if not isinstance(value, dict):
        return value
    own: dict[object, str] = {wire: name for name, wire in shape.names.items()}
    named = {own.get(key, str(key)): each for key, each in value.items()}
    return {key: _back(shape.inside.get(key, PLAIN), each) for key, each in named.items()}


def _forth(shape: Shape, value: object) -> object:
    if shape.is_json:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and shape.items is not None:
        return [_forth(shape.items, each) for each in value]
    if not isinstance(value, dict):
        return value
    inside = {key: _forth(shape.inside.get(key, PLAIN), each) for key, each in value.items()}
    return {shape.names.get(key, key): each for key, each in inside.items()}


def _read(text: str) -> object:
    """The value in JSON text; text that is none stays text, and the tool refuses it in words."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


PLAIN = Shape()
