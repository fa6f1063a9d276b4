"""Fields of a file, which may have any type and any value."""

import json
import math
from datetime import UTC, datetime
from typing import Any

# Times before this are mistakes: no such program existed.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
# Numbers above this are milliseconds, or smaller parts of a second.
MAX_SECONDS = 100_000_000_000


def read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def read_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def read_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, without other items."""
    return [each for each in read_list(value) if isinstance(each, dict)]


def read_id(value: Any) -> str:
    """Return an id as text; some programs count."""
    return (
        str(value) if isinstance(value, int) and not isinstance(value, bool) else read_text(value)
    )


def read_time(value: Any) -> datetime | None:
    """Return a time in Unix seconds or parts of them, or by ISO 8601; None for one that is missing,
    unreadable or in the future."""
    time = _parse_time(value)
    return time if time is not None and EARLIEST <= time <= datetime.now(UTC) else None


def _parse_time(value: Any) -> datetime | None:
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            return time if time.tzinfo else time.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            seconds = value
            for _smaller in ("milliseconds", "microseconds", "nanoseconds"):
                seconds = seconds / 1_000 if seconds > MAX_SECONDS else seconds
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def write_json(value: Any) -> str:
    """Return a value of the file as JSON."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "{}"


def read_arguments(value: Any) -> str:
    """Return the arguments of a call as a JSON object. Some files have them as text."""
    if isinstance(value, dict):
        return write_json(value)
    try:
        is_object = isinstance(json.loads(read_text(value)), dict)
    except (ValueError, RecursionError):
        is_object = False
    if is_object:
        return str(value)
    text = read_text(value) if isinstance(value, str) else write_json(value)
    return write_json({"input": text}) if text and text != "null" else "{}"
