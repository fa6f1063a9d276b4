"""Which destinations of a call were copied from untrusted content that came before it."""

import json
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from chatapp.models import Attachment, ToolCall, Turn
from chatapp.permissions.copied_text import (
    MAX_TEXT_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    MAX_VALUES,
    CopySearch,
)
from chatapp.permissions.destinations import list_destinations
from chatapp.tools.catalogue import describe_definition
from chatapp.tools.taint import filter_tainted

logger = logging.getLogger(__name__)

MAX_SOURCES = 50
_MAX_TEXTS = 5_000
# Members of a result that hold bytes as base64.
_BYTES = ("data", "blob")
ReadSources = Callable[[Turn, int], Sequence[tuple[str, str]]]


def find_copied_values(calls: Sequence[ToolCall]) -> dict[uuid.UUID, dict[str, str] | None]:
    """Return for each waiting call its arguments that decide where data goes and have text from an
    untrusted result or attachment of its turn, each with the name of its source, or None if they
    could not be found. The sources of calls of one step are read once."""
    read_sources = cache(_read_sources)
    return {call.pk: _find_or_log(call, read_sources) for call in calls}


def _find_or_log(call: ToolCall, read_sources: ReadSources) -> dict[str, str] | None:
    # A failure must not keep the card from being drawn.
    try:
        return _find_copied_values(call, read_sources)
    except Exception:
        logger.exception("The copied values of a call could not be found.")
        return None


def _find_copied_values(call: ToolCall, read_sources: ReadSources) -> dict[str, str]:
    service, definition = call.service, call.definition
    if service is None or definition is None:
        return {}
    sources = read_sources(call.turn, call.step)
    if not sources:
        return {}
    arguments = json.loads(call.arguments)
    destinations = list_destinations(describe_definition(service, definition), arguments)
    names = dict.fromkeys(each.parameter for each in destinations if each.parameter in arguments)
    values = {
        name: "\n".join(_list_texts(arguments[name], MAX_VALUE_CHARACTERS))
        for name in islice(names, MAX_VALUES)
    }
    return _search(values, sources) if values else {}


def _search(values: Mapping[str, str], sources: Sequence[tuple[str, str]]) -> dict[str, str]:
    search = CopySearch.prepare(values)
    copied: dict[str, str] = {}
    for name, text in sources:
        if search.work_left <= 0 or len(copied) == len(values):
            break
        copied |= dict.fromkeys(search.search(text), name)
    return copied


def _read_sources(turn: Turn, step: int) -> tuple[tuple[str, str], ...]:
    """Return the name and the text of each untrusted source before this step, at most
    `MAX_TEXT_CHARACTERS` in all."""
    found = []
    left = MAX_TEXT_CHARACTERS
    for name, text in _list_sources(*_select_sources(turn, step)):
        if left <= 0:
            break
        found.append((name, text[:left]))
        left -= len(text)
    return tuple(found)


def _select_sources(turn: Turn, step: int) -> tuple[QuerySet[ToolCall], QuerySet[Attachment]]:
    """Return the untrusted results before a step, the newest first, and the attachments."""
    results = ToolCall.objects.filter(turn=turn, step__lt=step, result__isnull=False).order_by(
        "-step", "-position"
    )
    files = Attachment.objects.filter(part__message=turn.question_id)
    return filter_tainted(results), filter_tainted(files)


def _list_sources(
    results: QuerySet[ToolCall], files: QuerySet[Attachment]
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each source."""
    for row in results.select_related("service")[:MAX_SOURCES]:
        name = f"{row.tool_name} ({row.service or row.tainted_by})"
        yield name, "\n".join(_list_texts(row.result, MAX_TEXT_CHARACTERS))
    for file in files[:MAX_SOURCES]:
        yield str(file), "\n".join(_list_texts(file.contents, MAX_TEXT_CHARACTERS))


def _list_texts(value: Any, most: int) -> list[str]:
    """Return the texts in a value, numbers included, up to so many characters in all."""
    texts: list[str] = []
    for text in islice(_iterate_texts(value), _MAX_TEXTS):
        texts.append(text[:most])
        most -= len(text)
        if most <= 0:
            break
    return texts


def _iterate_texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting.extend(inner for name, inner in each.items() if name not in _BYTES)
        elif isinstance(each, list):
            waiting.extend(reversed(each))
        elif isinstance(each, int | float):
            yield str(each)
