"""What the fragments of a tool call show: its names, arguments and result, ready to be read.

A service and a model wrote all of these words, so hidden characters are drawn and nothing is cut
without saying so.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.utils.safestring import SafeString

from chatapp.models import ToolCall
from chatapp.permissions.vocabulary import AMBIGUOUS, VERBS
from mcpconfig.models import Service

from .visible import draw_hidden, has_hidden, has_mixed_scripts

LONG_CHARACTERS = 400
LONG_LINES = 12
PREVIEW_CHARACTERS = 140
RESULT_CHARACTERS = 20_000
BRIEF_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One value of a call. `preview` is there for a long one, which is shown folded but whole."""

    name: SafeString
    value: SafeString
    is_code: bool = False
    is_required: bool = False
    characters: int = 0
    preview: SafeString | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBlock:
    """One piece of what a tool answered. `left_out` counts the characters that are not shown."""

    label: str
    text: SafeString
    left_out: int = 0


def title_of(call: ToolCall) -> str:
    """The tool's title, or its name made readable."""
    definition = call.definition
    annotations = (definition.annotations if definition else None) or {}
    given = (definition.title if definition else "") or annotations.get("title")
    if isinstance(given, str) and given.strip():
        return given.strip()
    words = re.sub(r"[_\-.\s]+", " ", call.tool_name or call.tool_id).strip()
    return words[:1].upper() + words[1:]


def wish_of(call: ToolCall) -> tuple[str, str]:
    """How the sentence "… wants to …" goes on: a plain word or none, and the emphasised rest."""
    title = title_of(call)
    first, space, rest = title.partition(" ")
    if first.istitle() and first.lower() in VERBS.keys() | AMBIGUOUS.keys():
        return "", f"{first.lower()}{space}{rest}"
    return "use", title


def service_of(call: ToolCall) -> str:
    return str(call.service) if call.service else "A service that is gone"


def host_of(call: ToolCall) -> str:
    """Where the call goes."""
    if call.service is None:
        return ""
    address = urlsplit(call.service.url)
    return "built in" if address.scheme == "builtin" else address.netloc


def account_of(call: ToolCall) -> str:
    """As whom the call runs there; nobody has a sign-in of their own to a service."""
    if call.service is None or call.service.authentication == Service.Authentication.NONE:
        return "runs without signing in"
    return "runs as a shared account"


def cautions_of(call: ToolCall) -> list[str]:
    """What about the words of this call could deceive whoever reads them."""
    names = [call.tool_name, call.tool_id, title_of(call), service_of(call)]
    cautions = []
    if any(map(has_hidden, [*names, *_texts(_read(call.arguments) or call.arguments)])):
        cautions.append("It contains hidden characters; they are drawn as ⟨U+…⟩.")
    if any(map(has_mixed_scripts, names)):
        cautions.append("Its name mixes letters of two alphabets that look alike.")
    return cautions


def brief_of(call: ToolCall) -> SafeString:
    """The call's plain values on one line, to tell one row from the next."""
    values = _read(call.arguments)
    plain = [str(value) for _, value in _ordered(call, values) if isinstance(value, str | int)]
    line = " ".join(", ".join(plain).split())
    return draw_hidden(line if len(line) <= BRIEF_CHARACTERS else f"{line[:BRIEF_CHARACTERS]}…")


def arguments_of(call: ToolCall) -> list[Argument]:
    """Every argument, in the order of the tool's schema, the required ones first."""
    required = _schema(call).get("required") or []
    values = _read(call.arguments)
    if values is None:
        return [_argument("Arguments", call.arguments, is_required=False)]
    return [
        _argument(name, value, is_required=name in required)
        for name, value in _ordered(call, values)
    ]


def result_of(call: ToolCall) -> list[ResultBlock]:
    """What the tool answered; its structured content only where there are no words."""
    blocks = [_result_block(block) for block in call.content]
    structured = (call.result or {}).get("structuredContent")
    if not blocks and structured is not None:
        blocks = [_shortened("Result", _indented(structured))]
    return blocks


def _result_block(block: dict[str, Any]) -> ResultBlock:
    kind = block.get("type")
    if kind == "text":
        return _shortened("Result", str(block.get("text", "")))
    media_type = str(block.get("mimeType") or "no type given")
    where = str(block.get("uri") or (block.get("resource") or {}).get("uri") or "")
    return _shortened(f"Result: {kind}", " ".join(filter(None, [f"[{media_type}]", where])))


def _shortened(label: str, text: str) -> ResultBlock:
    left_out = max(0, len(text) - RESULT_CHARACTERS)
    return ResultBlock(label=label, text=draw_hidden(text[:RESULT_CHARACTERS]), left_out=left_out)


def _argument(name: str, value: Any, *, is_required: bool) -> Argument:
    is_code = not isinstance(value, str)
    text = _indented(value) if is_code else value
    is_long = len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES
    return Argument(
        name=draw_hidden(name),
        value=draw_hidden(text),
        is_code=is_code,
        is_required=is_required,
        characters=len(text),
        preview=draw_hidden(" ".join(text[:PREVIEW_CHARACTERS].split())) if is_long else None,
    )


def _ordered(call: ToolCall, values: dict[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """The given values: required ones, others of the schema, then what it does not name."""
    schema = _schema(call)
    given = values or {}
    known = [*(schema.get("required") or []), *(schema.get("properties") or {})]
    for name in dict.fromkeys([*known, *given]):
        if name in given:
            yield name, given[name]


def _schema(call: ToolCall) -> dict[str, Any]:
    return call.definition.input_schema if call.definition else {}


def _read(arguments: str) -> dict[str, Any] | None:
    """The arguments as an object; None when they are not one."""
    try:
        values = json.loads(arguments or "{}")
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _texts(value: Any) -> Iterator[str]:
    """Every text inside a value, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
