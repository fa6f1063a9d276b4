"""Bodies of exchanges as people read them: JSON set out, events of a stream one by one."""

import json


def readable(body: str) -> str:
    """The body with its JSON indented, wherever it can be understood; otherwise as it is."""
    if body.lstrip().startswith(("{", "[")):
        return _indented(body)
    if "data:" in body:
        return "\n".join(_event_line(line) for line in body.splitlines())
    return body


def _event_line(line: str) -> str:
    if not line.startswith("data:"):
        return line
    return f"data: {_indented(line.removeprefix('data:').strip())}"


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text
