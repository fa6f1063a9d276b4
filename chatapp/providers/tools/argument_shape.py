"""How the arguments that a model writes differ from those of a tool, in both directions."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What was changed at one place of a schema.

    `names` maps properties to their names on the wire. With `is_json`, an object, a list or a text
    is JSON text on the wire. `further` is the name on the wire of the property that has all but the
    `fixed` properties as JSON text. `places` are the shapes of the first items of a list, `items`
    that of the others.
    """

    names: dict[str, str] = field(default_factory=dict)
    inside: dict[str, "Shape"] = field(default_factory=dict)
    further: str = ""
    fixed: frozenset[str] = frozenset()
    items: "Shape | None" = None
    places: tuple["Shape", ...] = ()
    is_json: bool = False

    @property
    def is_plain(self) -> bool:
        return self == PLAIN

    def list_places(self, count: int) -> list["Shape"]:
        """Return the shapes of the first `count` items, which a schema describes by their place."""
        return [*self.places[:count], *repeat(PLAIN, count - len(self.places))]

    def list_renamed(self) -> set[str]:
        """Return the properties with another name on the wire, at every depth."""
        within = [*self.inside.values(), *self.places, *([self.items] if self.items else [])]
        return {*self.names}.union(*(shape.list_renamed() for shape in within))

    def iterate_items(self) -> Iterable["Shape"]:
        yield from self.places
        yield from repeat(self.items or PLAIN)


def arguments_from_wire(shape: Shape, text: str) -> str:
    """Return the model's arguments in the shape of the tool, unchanged if they do not differ."""
    return text if shape.is_plain else _change_json(text, lambda value: _from_wire(shape, value))


def arguments_to_wire(shape: Shape, text: str) -> str:
    """Return the arguments of an earlier call as the model would have written them."""
    return text if shape.is_plain else _change_json(text, lambda value: _to_wire(shape, value))


def _change_json(text: str, change: Callable[[object], object]) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(change(value), ensure_ascii=False)


def _from_wire(shape: Shape, value: object) -> object:
    match value:
        case str():
            return _read_json(value) if shape.is_json else value
        case list():
            return [_from_wire(*pair) for pair in zip(shape.iterate_items(), value, strict=False)]
        case dict():
            further = _read_json(value.get(shape.further)) if shape.further else None
            held = further if isinstance(further, dict) else {}
            own: dict[object, str] = {wire: name for name, wire in shape.names.items()}
            named = {
                own.get(key, str(key)): each
                for key, each in value.items()
                if held is not further or key != shape.further
            }
            return held | {k: _from_wire(shape.inside.get(k, PLAIN), v) for k, v in named.items()}
        case _:
            return value


def _to_wire(shape: Shape, value: object) -> object:
    if shape.is_json:
        is_written = isinstance(value, dict | list | str)
        return json.dumps(value, ensure_ascii=False) if is_written else value
    if isinstance(value, list):
        return [_to_wire(*pair) for pair in zip(shape.iterate_items(), value, strict=False)]
    if not isinstance(value, dict):
        return value
    held = {key: each for key, each in value.items() if shape.further and key not in shape.fixed}
    inside = {
        shape.names.get(key, key): _to_wire(shape.inside.get(key, PLAIN), each)
        for key, each in value.items()
        if key not in held
    }
    return inside | ({shape.further: json.dumps(held, ensure_ascii=False)} if held else {})


def _read_json(written: object) -> object:
    """Return the value of JSON text.

    Other text stays text, and the tool refuses it. A number stays text, too: where a number fits,
    it needs no JSON text.
    """
    if not isinstance(written, str):
        return written
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return written if isinstance(value, int | float) else value


PLAIN = Shape()
