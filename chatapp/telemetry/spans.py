"""What a span is for those who use one, and the span that is used while traces are off."""

from collections.abc import Mapping
from typing import Protocol

Value = str | int | float | bool | list[str]
Attributes = Mapping[str, Value]


class Span(Protocol):
    """One timed piece of work. `fail` takes the kind of an error, never its text."""

    def set(self, attributes: Attributes) -> None: ...

    def fail(self, kind: str) -> None: ...


class OpenSpan(Span, Protocol):
    """A span that its caller ends, now or at a Unix time."""

    def end(self, ended: float | None = None) -> None: ...


class NoSpan:
    """What is used while traces are off."""

    def set(self, attributes: Attributes) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass

    def end(self, ended: float | None = None) -> None:
        pass


NO_SPAN = NoSpan()
