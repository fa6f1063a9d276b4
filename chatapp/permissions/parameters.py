"""The parameters of an input schema, however deep they sit: their names, choices and freedom."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .words import words_of

_MAX_DEPTH = 32
_MAX_SCHEMAS = 5_000
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")

Schema = Mapping[str, Any]


class UnreadableSchema(ValueError):
    """The schema is not one, refers to another document, or is too deep or large to be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`choices` are the texts that it is limited to; `is_free_text`: any text is taken as well."""

    words: tuple[str, ...]
    choices: tuple[str, ...]
    is_free_text: bool


def parameters_of(schema: object) -> tuple[Parameter, ...]:
    if not isinstance(schema, Mapping):
        raise UnreadableSchema("The schema is not an object.")
    return tuple(_Reader(root=schema).read(schema, depth=0))


@dataclass(slots=True, kw_only=True)
class _Reader:
    """One walk through one schema. Each definition is entered once, so recursive ones end."""

    root: Schema
    entered: set[str] = field(default_factory=set)
    count: int = 0

    def read(self, schema: object, depth: int) -> Iterator[Parameter]:
        self._spend(depth)
        if isinstance(schema, bool):
            return
        if not isinstance(schema, Mapping):
            raise UnreadableSchema("A part of the schema is not an object.")
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping):
            raise UnreadableSchema("The properties are not an object.")
        for name, part in properties.items():
            yield self._parameter(str(name), part, depth)
            yield from self.read(part, depth + 1)
        for part in self._inner(schema):
            yield from self.read(part, depth + 1)

    def _spend(self, depth: int) -> None:
        self.count += 1
        if depth > _MAX_DEPTH or self.count > _MAX_SCHEMAS:
            raise UnreadableSchema("The schema is too deep or too large.")

    def _inner(self, schema: Schema) -> Iterator[object]:
        for key in _ALTERNATIVES:
            yield from _list(schema.get(key, []))
        if "items" in schema:
            yield from _list(schema["items"], is_one_allowed=True)
        reference = schema.get("$ref")
        if reference is not None and reference not in self.entered:
            self.entered.add(reference)
            yield self._resolve(reference)

    def _resolve(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UnreadableSchema("The schema refers to another document.")
        target: Any = self.root
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or key not in target:
                raise UnreadableSchema("The schema refers to a part that it does not have.")
            target = target[key]
        return target

    def _parameter(self, name: str, schema: object, depth: int) -> Parameter:
        forms = tuple(self._forms(schema, depth))
        return Parameter(
            words=words_of(name),
            choices=tuple(text for form in forms for text in _choices(form)),
            is_free_text=any(_takes_any_text(form) for form in forms),
        )

    def _forms(self, schema: object, depth: int) -> Iterator[Schema]:
        """The alternatives that a parameter may take, those of a list's members included."""
        self._spend(depth)
        if isinstance(schema, bool):
            schema = {}
        if not isinstance(schema, Mapping):
            raise UnreadableSchema("A part of the schema is not an object.")
        inner = [part for key in _ALTERNATIVES for part in _list(schema.get(key, []))]
        if "$ref" in schema:
            inner.append(self._resolve(schema["$ref"]))
        if "items" in schema:
            inner.extend(_list(schema["items"], is_one_allowed=True))
        if not inner:
            yield schema
        for part in inner:
            yield from self._forms(part, depth + 1)


def _list(value: object, *, is_one_allowed: bool = False) -> list[object]:
    if isinstance(value, list):
        return value
    if is_one_allowed:
        return [value]
    raise UnreadableSchema("The alternatives are not a list.")


def _choices(form: Schema) -> list[str]:
    named = [*_list(form.get("enum", [])), form.get("const")]
    return [value for value in named if isinstance(value, str)]


def _takes_any_text(form: Schema) -> bool:
    if "enum" in form or "const" in form:
        return False
    kind = form.get("type", "string")
    return "string" in kind if isinstance(kind, list) else kind in {"string", "array"}
