"""The selection of one turn, read from rows before each model call: a switch counts from the
next model call, also in a running turn."""

import uuid
from dataclasses import replace

from django.db.models import QuerySet

from chatapp.journal import journal
from chatapp.journal.journal import MENTIONED, add_notice
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Conversation, Member, Part, ToolSwitch, Turn
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
    has_services = bool(catalogue.missing) or any(tool.service_id for tool in catalogue.values())
    selection = load_selection(turn, person, has_services=has_services)
    return narrow_catalogue(remove_forbidden(catalogue, person), selection)


def load_selection(turn: Turn, person: Member, *, has_services: bool = True) -> Selection:
    """Return what the message mentions and what is switched on. Without services, it does not
    matter which of them start switched off.

    A turn with named services uses them whatever the switches say, and a program's call its one
    tool. An app calls its own service's tools.
    """
    texts, uses_tools = _read_question(turn)
    return Selection(
        mentions=() if turn.app_of_id else parse_mentions("\n\n".join(texts)),
        switches=_load_turn_switches(turn, person, has_services=has_services),
        are_tools_off=not uses_tools,
    )


def _load_turn_switches(turn: Turn, person: Member, *, has_services: bool) -> Switches:
    if turn.is_direct and not turn.app_of_id:
        return Switches()
    switches = load_switches(person, turn.conversation, has_services=has_services)
    return switches if turn.services is None else switches.about_own


def load_switches(
    person: Member, conversation: Conversation | None, *, has_services: bool = True
) -> Switches:
    """Return the person's switches for all chats and for this one, and the services that start
    switched off."""
    here: dict[Place, bool] = {}
    everywhere: dict[Place, bool] = {}
    # A new chat has no switches of its own.
    chat_id = conversation.pk if conversation is not None else uuid.UUID(int=0)
    for chat, service, tool, is_on in _list_switches(person.pk, chat_id):
        (everywhere if chat is None else here)[service or "", tool] = is_on
    off_at_first = tuple(_list_off_at_first()) if has_services else ()
    return Switches(everywhere=everywhere, here=here, off_at_first=off_at_first)


@compiled
def _list_switches(
    person_id: int, conversation_id: uuid.UUID
) -> QuerySet[ToolSwitch, tuple[uuid.UUID | None, str | None, str, bool]]:
    rows = ToolSwitch.objects.in_chat(person_id, conversation_id)
    return rows.values_list("conversation", "service__name", "tool", "is_on")


@compiled
def _list_off_at_first() -> QuerySet[Service, str]:
    return Service.objects.filter(starts_on=False).values_list("name", flat=True)


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
    )


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
