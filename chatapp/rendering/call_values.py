"""What the fragments of a tool call show: its names and arguments, ready to be read.
What it answered is in `results.py`.

A service and a model wrote all of these words, so hidden characters are drawn and nothing is cut
without saying so.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from django.utils.safestring import SafeString

from chatapp.models import ToolCall
from chatapp.models.tool_call import READ_CHARACTERS
from chatapp.permissions.vocabulary import AMBIGUOUS, VERBS
from mcpconfig.credentials import tells_who_acts
from mcpconfig.models import Service

from .definitions import Call, definition_of
from .veil import is_secret, veiled
from .visible import (
    draw_hidden,
    draw_look_alikes,
    has_hidden,
    has_look_alikes,
    has_mixed_scripts,
)

LONG_CHARACTERS = 400
LONG_LINES = 12
PREVIEW_CHARACTERS = 140
BRIEF_CHARACTERS = 80
REASON_CHARACTERS = 160
# How the MCP SDK's servers begin a tool's own words when it fails; the row says both already.
SDK_PREFIX = re.compile(r"^Error executing tool \S+: ")
# A full stop inside a name or a number ends no sentence.
SENTENCE = re.compile(r".*?[.!?](?=\s|$)|.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One value of a call. `preview` is there for a long one, which is shown folded but whole.
    `before` says what it was the last time, where that was something else."""

    name: SafeString
    value: SafeString
    is_code: bool = False
    is_required: bool = False
    characters: int = 0
    preview: SafeString | None = None
    before: SafeString | None = None

    @property
    def must_be_read(self) -> bool:
        return self.characters > READ_CHARACTERS


def unread_in(call: Call, opened: Collection[str]) -> list[SafeString]:
    """The names of the values that have to be read and are not among those `opened`, which are
    named by their place: `read-1` is the first."""
    return [
        argument.name
        for place, argument in enumerate(arguments_of(call), start=1)
        if argument.must_be_read and f"read-{place}" not in opened
    ]


def title_of(call: Call) -> str:
    """The tool's title, or its name made readable."""
    definition = definition_of(call)
    if definition is not None and definition.title:
        return definition.title
    words = re.sub(r"[_\-.\s]+", " ", call.tool_name or call.tool_id).strip()
    return words[:1].upper() + words[1:]


def wish_of(call: Call) -> tuple[str, str]:
    """How the sentence "… wants to …" goes on: a plain word or none, and the emphasised rest."""
    title = title_of(call)
    first, space, rest = title.partition(" ")
    if first.istitle() and first.lower() in VERBS.keys() | AMBIGUOUS.keys():
        return "", f"{first.lower()}{space}{rest}"
    return "use", title


def service_of(call: Call) -> str:
    """The service; of a call without one, who wants it, or why it has none."""
    if call.service is not None:
        return str(call.service)
    if isinstance(call, ToolCall) and call.is_core:
        return "A program" if call.turn.is_direct else "The assistant"
    # Only what was in the catalogue once has the name that a service gave to its tool.
    return "A removed service" if call.tool_name else "No service offers a tool of this name"


def host_of(call: Call) -> str:
    """Where the call goes."""
    if call.service is None:
        return ""
    address = urlsplit(call.service.url)
    return "built in" if address.scheme == "builtin" else address.netloc


def account_of(call: Call, name: str = "") -> str:
    """As whom the call runs there, told to the person for whom it runs; to others, with that
    person's `name`."""
    who, whose = name or "you", f"{name}’s" if name else "your"
    service = call.service
    if isinstance(call, ToolCall) and call.is_core:
        return f"runs as {who}"
    if service is None or service.authentication == Service.Authentication.NONE:
        return "runs without signing in"
    if service.authentication in Service.PERSONAL:
        return f"runs as {who}"
    is_private = service.visibility == Service.Visibility.PRIVATE
    if is_private and service.owner_id is not None and service.owner_id == _runs_for(call):
        return f"runs as {whose} own account"
    if tells_who_acts(service):
        return f"runs as a shared account that is told of {who}"
    return "runs as a shared account"


def _runs_for(call: Call) -> int | None:
    return call.turn.conversation.owner_id if isinstance(call, ToolCall) else call.person_id


def places(*words: str) -> list[SafeString]:
    """What stands beside a tool's id, without gaps for what is not known."""
    return [draw_hidden(word) for word in words if word]


def cautions_of(call: Call) -> list[str]:
    """What about the words of this call could deceive whoever reads them."""
    names = [call.tool_name, call.tool_id, title_of(call), service_of(call)]
    cautions = []
    said = list(_texts(_read(call.arguments) or call.arguments))
    if any(map(has_hidden, [*names, *said])):
        cautions.append("It contains hidden characters; they are drawn as ⟨U+…⟩.")
    if any(map(has_mixed_scripts, names)):
        cautions.append("Its name mixes letters of two alphabets that look alike.")
    if any(map(has_look_alikes, said)):
        cautions.append(
            "A word in its values mixes letters of two alphabets that look alike; they are drawn "
            "with their codes."
        )
    return cautions


def reason_of(call: Call) -> SafeString:
    """The first sentence about why a call failed; nothing for one that did not."""
    if call.state != ToolCall.State.FAILED:
        return draw_hidden("")
    texts = [str(block.get("text", "")) for block in call.content if block.get("type") == "text"]
    said = (call.error or {}).get("message") or next(iter(texts), "")
    line = " ".join(SDK_PREFIX.sub("", said, count=1).split())
    found = SENTENCE.match(line)
    return draw_hidden(_cut(found.group() if found else "", REASON_CHARACTERS))


def problem_of(call: Call) -> SafeString:
    """What is known of a failed or lost call besides its result, with what to do."""
    error = call.error or {}
    return draw_hidden(" ".join(filter(None, [error.get("message"), error.get("hint")])))


def brief_of(call: Call) -> SafeString:
    """The call's plain values on one line, to tell one row from the next."""
    values = _read(call.arguments)
    plain = [
        str(value)
        for name, value in _ordered(call, values)
        if isinstance(value, str | int) and not is_secret(name, value)
    ]
    return draw_hidden(_cut(" ".join(", ".join(plain).split()), BRIEF_CHARACTERS))


def arguments_of(call: Call, previous: ToolCall | None = None) -> list[Argument]:
    """Every argument, in the order of the tool's schema, the required ones first; beside each what
    it was in a `previous` call, where it differs."""
    required = _schema(call).get("required") or []
    values = _read(call.arguments)
    if values is None:
        return [_argument("Arguments", call.arguments, is_required=False)]
    earlier = _read(previous.arguments) if previous is not None else None
    return [
        replace(
            _argument(name, value, is_required=name in required),
            before=_before(name, value, earlier),
        )
        for name, value in _ordered(call, values)
    ]


def left_out_of(call: Call, previous: ToolCall | None) -> list[SafeString]:
    """The names of values that a `previous` call had and this one has not."""
    earlier = _read(previous.arguments) if previous is not None else None
    now = _read(call.arguments) or {}
    return [draw_look_alikes(name) for name in earlier or {} if name not in now]


def _before(name: str, value: Any, earlier: dict[str, Any] | None) -> SafeString | None:
    if earlier is None or (name in earlier and earlier[name] == value):
        return None
    if name not in earlier:
        return draw_hidden("not given")
    if is_secret(name, earlier[name]):
        return draw_hidden("another secret")
    text = _as_text(veiled(earlier[name]))
    cut = f"{text[:PREVIEW_CHARACTERS]}… ({len(text):,} characters)"
    return draw_look_alikes(text if len(text) <= PREVIEW_CHARACTERS else cut)


def _cut(line: str, characters: int) -> str:
    return line if len(line) <= characters else f"{line[:characters]}…"


def _argument(name: str, value: Any, *, is_required: bool) -> Argument:
    text = _as_text(veiled(value, name))
    is_long = len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES
    return Argument(
        name=draw_look_alikes(name),
        value=draw_look_alikes(text),
        is_code=not isinstance(value, str),
        is_required=is_required,
        characters=len(text),
        preview=draw_look_alikes(" ".join(text[:PREVIEW_CHARACTERS].split())) if is_long else None,
    )


def _ordered(call: Call, values: dict[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """The given values: required ones, others of the schema, then what it does not name."""
    schema = _schema(call)
    given = values or {}
    known = [*(schema.get("required") or []), *(schema.get("properties") or {})]
    for name in dict.fromkeys([*known, *given]):
        if name in given:
            yield name, given[name]


def _schema(call: Call) -> dict[str, Any]:
    definition = definition_of(call)
    return definition.input_schema if definition else {}


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


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _indented(value)


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
