"""How the arguments that a model sees differ from those that a tool takes, and the way back."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What was changed at one place of a schema.

    `names` are the wire's names of the properties that had to be renamed. `is_json` says that an
    object, a list or a text is written as JSON text there. `further` is the wire's name of the
    property that holds, as JSON text, all but the `fixed` properties. `places` are the shapes of
    the first items of a list, `items` that of the others.
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

    def along_list(self) -> Iterable["Shape"]:
        yield from self.places
        yield from repeat(self.items or PLAIN)


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
    match value:
        case str():
            return _read(value) if shape.is_json else value
        case list():
            return [_back(*pair) for pair in zip(shape.along_list(), value, strict=False)]
        case dict():
            further = _read(value.get(shape.further)) if shape.further else None
            held = further if isinstance(further, dict) else {}
            own: dict[object, str] = {wire: name for name, wire in shape.names.items()}
            named = {
                own.get(key, str(key)): each
                for key, each in value.items()
                if held is not further or key != shape.further
            }
            return held | {k: _back(shape.inside.get(k, PLAIN), v) for k, v in named.items()}
        case _:
            return value


def _forth(shape: Shape, value: object) -> object:
    if shape.is_json:
        is_written = isinstance(value, dict | list | str)
        return json.dumps(value, ensure_ascii=False) if is_written else value
    if isinstance(value, list):
        return [_forth(*pair) for pair in zip(shape.along_list(), value, strict=False)]
    if not isinstance(value, dict):
        return value
    held = {key: each for key, each in value.items() if shape.further and key not in shape.fixed}
    inside = {
        shape.names.get(key, key): _forth(shape.inside.get(key, PLAIN), each)
        for key, each in value.items()
        if key not in held
    }
    return inside | ({shape.further: json.dumps(held, ensure_ascii=False)} if held else {})


def _read(written: object) -> object:
    """The value in JSON text. Text that is none stays text, and the tool refuses it in words; so
    does a bare number, which stands for itself wherever a number fits."""
    if not isinstance(written, str):
        return written
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return written if isinstance(value, int | float) else value


PLAIN = Shape()
