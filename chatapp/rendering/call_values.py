"""The names and arguments of a tool call, ready to be shown. `results/` has its results.

A service and a model wrote all of this text: hidden characters are drawn, and shortened text is
marked as such.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from chatapp.models import Review, ToolCall, Trial
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.models.turns.tool_call import READ_CHARACTERS
from chatapp.rendering.hidden_characters import (
    draw_hidden,
    draw_look_alikes,
    has_hidden,
    has_look_alikes,
    has_mixed_scripts,
)
from chatapp.rendering.secret_mask import is_secret, mask_secrets
from chatapp.rendering.stored_sentences import translate_stored
from chatapp.tools.core import core_tool
from mcpconfig.models import Service
from mcpconfig.values.tool_apps import get_app_uri

if TYPE_CHECKING:
    from pydantic import BaseModel

# A trial has the fields of a tool call that rendering reads, under the same names.
Call = ToolCall | Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The texts of a tool. `is_own` marks built-in tools, whose text can be trusted."""

    title: str
    description: str
    input_schema: dict[str, Any]
    is_own: bool = False


def find_definition(call: Call) -> Definition | None:
    """Return the definition of the called tool, or None if it is unknown."""
    own = core_tool(call.tool_name) if isinstance(call, ToolCall) and call.is_core else None
    if own is not None:
        schema = _build_schema(own.input)
        return Definition(
            title=_(own.title), description=own.description, input_schema=schema, is_own=True
        )
    stored = call.definition
    if stored is None:
        return None
    title = stored.title or (stored.annotations or {}).get("title")
    return Definition(
        title=title.strip() if isinstance(title, str) else "",
        description=stored.description.strip(),
        input_schema=stored.input_schema,
    )


@cache
def _build_schema(model: "type[BaseModel]") -> dict[str, Any]:
    """Cached, because every row of a call needs it."""
    return model.model_json_schema()


NOTHING_COPIED: Mapping[str, str] = MappingProxyType({})
LONG_CHARACTERS = 400
LONG_LINES = 12
PREVIEW_CHARACTERS = 140
BRIEF_CHARACTERS = 80
REASON_CHARACTERS = 160
# Servers of the MCP SDK begin the text of a failed tool with this; the row already says both.
SDK_PREFIX = re.compile(r"^Error executing tool \S+: ")
# A full stop inside a name or a number does not end a sentence.
SENTENCE = re.compile(r".*?[.!?](?=\s|$)|.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One value of a call. A long value is shown folded and has a `preview`. `before` is the value
    of the previous call, where it differs, and `copied_from` the untrusted result that a part of it
    was copied from."""

    name: SafeString
    value: SafeString
    is_code: bool = False
    is_required: bool = False
    characters: int = 0
    preview: SafeString | None = None
    before: SafeString | None = None
    copied_from: SafeString | None = None

    @property
    def must_be_read(self) -> bool:
        return self.characters > READ_CHARACTERS


def list_unread(call: Call, opened: Collection[str]) -> list[SafeString]:
    """Return the names of the values that must be read and are not in `opened`, which names values
    by their position: `read-1` is the first."""
    return [
        argument.name
        for place, argument in enumerate(draw_arguments(call), start=1)
        if argument.must_be_read and f"read-{place}" not in opened
    ]


def get_title(call: Call) -> str:
    """Return the title of the tool, or its name in readable form."""
    definition = find_definition(call)
    if definition is not None and definition.title:
        return definition.title
    words = re.sub(r"[_\-.\s]+", " ", call.tool_name or call.tool_id).strip()
    return words[:1].upper() + words[1:]


def describe_service(call: Call) -> str:
    """Return the name of the service; for a call without one, who made it or why it has none."""
    if call.service is not None:
        return str(call.service)
    if isinstance(call, ToolCall) and call.is_core:
        return _("A program") if call.turn.is_direct else _("The assistant")
    # Only a tool that was in the catalogue once has the name that its service gave it.
    return _("A removed service") if call.tool_name else _("No service has a tool with this name")


def describe_copied_state(copied: CopiedCall) -> str:
    """Return how a call of the chat that this one was forked from ended."""
    state_name = ToolCall.State(copied.state).label
    return _("%(state_name)s, in the original chat") % {"state_name": state_name}


def get_host(call: Call) -> str:
    """Return the host that the call is sent to."""
    if call.service is None:
        return ""
    address = urlsplit(call.service.url)
    return _("demo service") if address.scheme == "builtin" else address.netloc


def describe_account(call: Call, name: str = "", *, names_person: bool = False) -> str:
    """Return as whom the call runs at its service, addressed to the person it runs for, or with
    that person's `name` for other readers. `names_person`: the shared account sends who acts."""
    service, named = call.service, {"name": name}
    as_person = _("runs as %(name)s") % named if name else _("runs as you")
    if isinstance(call, ToolCall) and call.is_core:
        return as_person
    if service is None or service.authentication == Service.Authentication.NONE:
        return _("no sign-in needed")
    if service.authentication in Service.PERSONAL:
        return as_person
    is_private = service.visibility == Service.Visibility.PRIVATE
    if is_private and service.owner_id is not None and service.owner_id == _get_person_id(call):
        return _("uses %(name)s’s own account") % named if name else _("uses your own account")
    if names_person:
        if name:
            return _("uses a shared account and identifies %(name)s") % named
        return _("uses a shared account and identifies you")
    return _("uses a shared account")


def _get_person_id(call: Call) -> int | None:
    return call.turn.conversation.owner_id if isinstance(call, ToolCall) else call.person_id


def draw_places(*words: str) -> list[SafeString]:
    """Return the texts beside the id of a tool, without the unknown ones."""
    return [draw_hidden(word) for word in words if word]


def list_cautions(call: Call) -> list[str]:
    """Return warnings about text of this call that could deceive a reader."""
    names = [call.tool_name, call.tool_id, get_title(call), describe_service(call)]
    cautions = []
    said = list(_iterate_texts(_parse_arguments(call.arguments) or call.arguments))
    if any(map(has_hidden, [*names, *said])):
        cautions.append(_("Contains hidden characters, shown as ⟨U+…⟩."))
    if any(map(has_mixed_scripts, names)):
        cautions.append(_("The name mixes look-alike letters of two alphabets."))
    if any(map(has_look_alikes, said)):
        cautions.append(
            _("A value mixes look-alike letters of two alphabets. They are shown with their codes.")
        )
    return cautions


def draw_failure_reason(call: Call) -> SafeString:
    """Return the first sentence of the failure of a call, or an empty text if it did not fail."""
    if call.state != ToolCall.State.FAILED:
        return draw_hidden("")
    texts = [str(block.get("text", "")) for block in call.content if block.get("type") == "text"]
    said = translate_stored((call.error or {}).get("message")) or next(iter(texts), "")
    line = " ".join(SDK_PREFIX.sub("", said, count=1).split())
    found = SENTENCE.match(line)
    return draw_hidden(_shorten(found.group() if found else "", REASON_CHARACTERS))


def draw_problem(call: Call) -> SafeString:
    """Return the error of a failed or lost call with its hint, without its result."""
    error = call.error or {}
    sentences = [translate_stored(error.get(name)) for name in ("message", "hint")]
    return draw_hidden(" ".join(filter(None, sentences)))


def draw_brief(call: Call) -> SafeString:
    """Return the plain values of the call on one line, to distinguish rows."""
    values = _parse_arguments(call.arguments)
    plain = [
        str(value)
        for name, value in _order_arguments(call, values)
        if isinstance(value, str | int) and not is_secret(name, value)
    ]
    return draw_hidden(_shorten(" ".join(", ".join(plain).split()), BRIEF_CHARACTERS))


def draw_arguments(
    call: Call, previous: ToolCall | None = None, copied: Mapping[str, str] = NOTHING_COPIED
) -> list[Argument]:
    """Return every argument in the order of the schema, required ones first, each with its value in
    a `previous` call where that differs, and with the result that it was `copied` from."""
    required = _get_schema(call).get("required") or []
    values = _parse_arguments(call.arguments)
    if values is None:
        return [_draw_argument(_("Values"), call.arguments, is_required=False)]
    earlier = _parse_arguments(previous.arguments) if previous is not None else None
    return [
        replace(
            _draw_argument(name, value, is_required=name in required),
            before=_draw_previous(name, value, earlier),
            copied_from=draw_look_alikes(copied[name]) if name in copied else None,
        )
        for name, value in _order_arguments(call, values)
    ]


def draw_left_out(call: Call, previous: ToolCall | None) -> list[SafeString]:
    """Return the names of the values that a `previous` call had and this one lacks."""
    earlier = _parse_arguments(previous.arguments) if previous is not None else None
    now = _parse_arguments(call.arguments) or {}
    return [draw_look_alikes(name) for name in earlier or {} if name not in now]


def _draw_previous(name: str, value: Any, earlier: dict[str, Any] | None) -> SafeString | None:
    if earlier is None or (name in earlier and earlier[name] == value):
        return None
    if name not in earlier:
        return draw_hidden(_("not given"))
    if is_secret(name, earlier[name]):
        return draw_hidden(_("a different secret"))
    text = _format_value(mask_secrets(earlier[name]))
    if len(text) <= PREVIEW_CHARACTERS:
        return draw_look_alikes(text)
    cut = _("%(text)s… (%(count)s characters)")
    return draw_look_alikes(
        cut
        % {
            "text": text[:PREVIEW_CHARACTERS],
            "count": intcomma(len(text)),
        }
    )


def _shorten(line: str, characters: int) -> str:
    return line if len(line) <= characters else f"{line[:characters]}…"


def _draw_argument(name: str, value: Any, *, is_required: bool) -> Argument:
    text = _format_value(mask_secrets(value, name))
    is_long = len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES
    return Argument(
        name=draw_look_alikes(name),
        value=draw_look_alikes(text),
        is_code=not isinstance(value, str),
        is_required=is_required,
        characters=len(text),
        preview=draw_look_alikes(" ".join(text[:PREVIEW_CHARACTERS].split())) if is_long else None,
    )


def _order_arguments(call: Call, values: dict[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """Yield the given values: required ones, other ones of the schema, then unknown ones."""
    schema = _get_schema(call)
    given = values or {}
    known = [*(schema.get("required") or []), *(schema.get("properties") or {})]
    for name in dict.fromkeys([*known, *given]):
        if name in given:
            yield name, given[name]


def _get_schema(call: Call) -> dict[str, Any]:
    definition = find_definition(call)
    return definition.input_schema if definition else {}


def _parse_arguments(arguments: str) -> dict[str, Any] | None:
    """Return the arguments as a dictionary, or None if they are not a JSON object."""
    try:
        values = json.loads(arguments or "{}")
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _iterate_texts(value: Any) -> Iterator[str]:
    """Yield every text inside a value, including names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _iterate_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_texts(inner)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else _format_json(value)


def _format_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def find_app_uri(call: ToolCall) -> str:
    """Return the URI of the app of this call at its service, or an empty text if none is shown.

    A call that an app made shows no app: its answer goes to that app, and an app could otherwise
    fill the chat with apps.
    """
    service, definition = call.service, call.definition
    if call.turn.app_of_id is not None:
        return ""
    if call.state != ToolCall.State.SUCCEEDED or call.result is None:
        return ""
    if service is None or definition is None or not (service.is_enabled and service.allows_apps):
        return ""
    return get_app_uri(definition.meta) if _is_shown_to_app(call) else ""


def _is_shown_to_app(call: ToolCall) -> bool:
    """Return whether the result needs no review or was released by one: an app may pass on what it
    receives."""
    review: Review | None = getattr(call, "review", None)
    return review is None or review.state == Review.State.GIVEN
