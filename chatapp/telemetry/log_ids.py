"""The ids in log entries, of the request, the person, the turn and the tool call, and entries as
lines of JSON."""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from . import tracing

NAMES = {"levelname": "level", "name": "logger", "exc_info": "exception", "stack_info": "stack"}
IDS = ("request_id", "person_id", "turn_id", "call_id", "trace_id")
FIELDS = ("time", "level", "logger", "message", *IDS, "exception", "stack")


@dataclass(slots=True)
class _Person:
    """Who sent the request. Filled in once that is known, for all that belongs to the request."""

    id: int | None = None


_request: ContextVar[str] = ContextVar("request", default="")
_person: ContextVar[_Person | None] = ContextVar("person", default=None)
_turn: ContextVar[str] = ContextVar("turn", default="")
_call: ContextVar[str] = ContextVar("call", default="")


def begin_request(request_id: str) -> None:
    """Name the request in the entries that follow, and forget the person of an earlier one."""
    _request.set(request_id)
    _person.set(_Person())


def note_person(person_id: int | None) -> None:
    """Name the person of this request in the entries that follow."""
    person = _person.get()
    if person is not None:
        person.id = person_id


@contextmanager
def use_turn(turn_id: uuid.UUID) -> Iterator[None]:
    token = _turn.set(str(turn_id))
    try:
        yield
    finally:
        _turn.reset(token)


@contextmanager
def use_call(call_id: uuid.UUID) -> Iterator[None]:
    token = _call.set(str(call_id))
    try:
        yield
    finally:
        _call.reset(token)


class IdsFilter(logging.Filter):
    """Adds the ids that are known to each entry, and leaves none out."""

    def filter(self, record: logging.LogRecord) -> bool:
        person = _person.get()
        found = {
            "request_id": _request.get(),
            "person_id": person.id if person is not None else None,
            "turn_id": _turn.get(),
            "call_id": _call.get(),
            "trace_id": tracing.get_trace_id(),
        }
        for name, value in found.items():
            if value:
                setattr(record, name, value)
        return True


class JsonLines(JsonFormatter):
    """One JSON object a line, with the `FIELDS` and nothing else: libraries attach whole requests
    to their entries."""

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "name", "message"],
            rename_fields=NAMES,
            timestamp="time",
            json_ensure_ascii=False,
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return {name: log_data[name] for name in FIELDS if name in log_data}
