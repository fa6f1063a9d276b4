"""Bodies of exchanges in readable form: indented JSON, and the events of a stream."""

import json


def format_body(body: str) -> str:
    """Return the body with its JSON indented where it can be parsed, and unchanged otherwise."""
    if body.lstrip().startswith(("{", "[")):
        return _indent_json(body)
    if "data:" in body:
        return "\n".join(_format_event_line(line) for line in body.splitlines())
    return body


def _format_event_line(line: str) -> str:
    if not line.startswith("data:"):
        return line
    return f"data: {_indent_json(line.removeprefix('data:').strip())}"


def _indent_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text
