"""The selection of one turn, read from rows before each model call: a switch counts from the
next model call, also in a running turn."""

import uuid
from dataclasses import replace
from typing import Any

from django.db.models import BooleanField, F, OuterRef, Q, QuerySet, Subquery, UUIDField, Value

from chatapp.journal import journal
from chatapp.journal.journal import MENTIONED, add_notice
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Conversation, Member, Part, ToolCall, ToolSwitch, Turn
from chatapp.policy.forbidden_tools import remove_forbidden
from chatapp.server.compiled_queries import compiled
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.selection import (
    Place,
    Selection,
    Switches,
    build_notice,
    list_unmet,
    parse_mentions,
    select,
    wants_service,
)
from mcpconfig.models import Service


def choose_tools(catalogue: Catalogue, turn: Turn, person: Member) -> Catalogue:
    """Return the catalogue with the tools that this turn's message and person chose, without
    forbidden ones."""
    return narrow_catalogue(remove_forbidden(catalogue, person), load_selection(turn, person))


def load_selection(turn: Turn, person: Member) -> Selection:
    """Return what the message mentions and what is switched on.

    A turn with named services uses them whatever the switches say, and a program's call its one
    tool. An app calls its own service's tools.
    """
    texts, uses_tools = _read_question(turn)
    return Selection(
        mentions=() if turn.app_of_id else parse_mentions("\n\n".join(texts)),
        switches=_load_turn_switches(turn, person),
        are_tools_off=not uses_tools,
    )


def _load_turn_switches(turn: Turn, person: Member) -> Switches:
    if turn.is_direct and not turn.app_of_id:
        return Switches()
    switches = load_switches(person, turn.conversation)
    return switches if turn.services is None else switches.about_own


def load_switches(person: Member, conversation: Conversation | None) -> Switches:
    """Return the person's switches for all chats and for this one, and the services that start
    switched off."""
    here: dict[Place, bool] = {}
    everywhere: dict[Place, bool] = {}
    off_at_first: set[str] = set()
    # A new chat has no switches of its own.
    chat_id = conversation.pk if conversation is not None else uuid.UUID(int=0)
    for chat, service, tool, is_on in _list_switches(person.pk, chat_id):
        if is_on is None:
            off_at_first.add(service)
        else:
            (everywhere if chat is None else here)[service or "", tool] = is_on
    return Switches(everywhere=everywhere, here=here, off_at_first=frozenset(off_at_first))


@compiled
def _list_switches(person_id: int, conversation_id: uuid.UUID) -> QuerySet[ToolSwitch, Any]:
    """Return chat, service, tool and whether it is on. Services that start switched off are rows
    of the same statement: switches of nobody, which are neither on nor off."""
    rows = ToolSwitch.objects.in_chat(person_id, conversation_id).order_by()
    switches = rows.values_list("conversation", "service__name", "tool", "is_on")
    nowhere, neither = Value(None, UUIDField()), Value(None, BooleanField())
    off: QuerySet[Any, Any] = Service.objects.filter(starts_on=False).order_by()
    return switches.union(off.values_list(nowhere, "name", Value(""), neither), all=True)


def narrow_catalogue(catalogue: Catalogue, selection: Selection) -> Catalogue:
    """Return the catalogue with only the selected tools.

    The others stay known, so that a call of one differs from a call of an unknown tool. Unselected
    services get no notice.
    """
    known = {**catalogue.withheld, **catalogue.tools}
    tools, withheld = select(catalogue.tools, selection), select(catalogue.withheld, selection)
    missing = [each for each in catalogue.missing if _is_wanted(each[0], catalogue, selection)]
    nothing = list_unmet(known, selection.mentions, excused=[name for name, _ in catalogue.missing])
    return replace(
        catalogue,
        tools=tools,
        withheld=withheld,
        unselected={name: known[name] for name in known.keys() - tools.keys() - withheld.keys()},
        missing=tuple(missing),
        notice=build_notice(selection, nothing, is_empty=not tools),
        is_off=selection.are_tools_off,
        selection=selection,
    )


def annotate_switch(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """Read with each call the person's switch that counts for its tool, as `Switches.is_on`
    chooses it; None if there is none."""
    mine = ToolSwitch.objects.filter(
        Q(conversation=None) | Q(conversation=OuterRef("turn__conversation")),
        Q(tool="") | Q(tool=OuterRef("tool_name")),
        person=OuterRef("turn__conversation__owner"),
        service=OuterRef("service"),
    ).order_by(F("conversation").desc(nulls_last=True), "-tool")
    return calls.annotate(switch=Subquery(mine.values("is_on")[:1]))


def is_still_chosen(call: ToolCall, service: Service, offered: Catalogue, turn: Turn) -> bool:
    """Whether the tool of a call, which has what `annotate_switch` reads and was offered, is still
    chosen. `turn` has the conversation as it is now; the message and its mentions never change."""
    row: Any = call
    if not turn.conversation.uses_tools:
        return False
    if turn.services is not None or (offered.selection and offered.selection.mentions):
        return True
    return service.starts_on if row.switch is None else bool(row.switch)


def note_unmet(lease: Lease, catalogue: Catalogue) -> None:
    """Store a notice for the person that a mention had no effect, and why."""
    with lock_turn(lease) as turn:
        sentence, hint = catalogue.notice
        entries = add_notice(turn, MENTIONED, sentence, hint)
        journal.append(turn.conversation_id, turn.pk, entries)


def _is_wanted(service: str, catalogue: Catalogue, selection: Selection) -> bool:
    known = catalogue.withheld.values()
    return wants_service(
        selection, service, [t.tool_name for t in known if t.service_name == service]
    )


def _read_question(turn: Turn) -> tuple[list[str], bool]:
    """Return the texts of the message, and whether tools are on for the chat, from its current row:
    since the turn was read, a service may have been asked for its tools."""
    rows = _list_texts(turn.question_id)
    if rows:
        return [text for text, _ in rows], rows[0][1]
    return [], Conversation.objects.filter(pk=turn.conversation_id, uses_tools=True).exists()


@compiled
def _list_texts(message_id: uuid.UUID) -> QuerySet[Part, tuple[str, bool]]:
    texts = Part.objects.filter(message=message_id, kind=Part.Kind.TEXT)
    return texts.values_list("text", "message__conversation__uses_tools")
