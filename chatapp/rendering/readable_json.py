"""JSON in what services answer: recognised strictly, and set out to be read.

What would not read back the same (a name that is given twice, a number beyond all bounds) is no
JSON here and is shown as it came.
"""

import json
from typing import Any

MAX_CHARACTERS = 100_000


def parsed(text: str) -> Any:
    """The object or list that the text is; None for every other text."""
    if len(text) > MAX_CHARACTERS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text, object_pairs_hook=_each_once, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def pretty(text: str) -> str | None:
    """The same JSON in lines; None for what is no JSON."""
    value = parsed(text)
    if value is None:
        return None
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None


def indented(value: Any) -> str:
    """A value that was stored as JSON, in lines; a huge one in one, in a tenth of the time."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) > MAX_CHARACTERS else json.dumps(value, indent=2, ensure_ascii=False)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A name is given twice.")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON.")
