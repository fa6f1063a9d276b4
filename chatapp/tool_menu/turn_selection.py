"""Which of the tools that an admin allows a turn may use, by the rows as they are now: so a switch
counts from the next model call on, also in a turn that runs."""

from collections.abc import Iterable
from dataclasses import replace

from chatapp.models import Conversation, Member, Part, ToolSwitch, Turn
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.selection import (
    Place,
    Selection,
    Switches,
    mentions_in,
    notice_of,
    select,
    unmet,
    wants,
)
from mcpconfig.models import Service

from . import journal
from .forbidden_tools import without_forbidden
from .lease import Lease, fenced
from .top_notices import MENTIONED, note_once


def chosen(catalogue: Catalogue, turn: Turn, person: Member) -> Catalogue:
    """Of the catalogue what this turn's message and person chose, and no rule forbids to them."""
    return narrowed(without_forbidden(catalogue, person), selection_of(turn, person))


def selection_of(turn: Turn, person: Member) -> Selection:
    """What the message mentions, and what is switched on. Who names services for a turn means them
    whatever the switches say, and a program its one tool; an app calls its own service's tools."""
    return Selection(
        mentions=() if turn.app_of_id else mentions_in(_question(turn)),
        switches=_switches_for(turn, person),
        are_tools_off=not _uses_tools(turn),
    )


def _switches_for(turn: Turn, person: Member) -> Switches:
    if turn.is_direct and not turn.app_of_id:
        return Switches()
    switches = switches_of(person, turn.conversation)
    return switches if turn.services is None else switches.about_own


def switches_of(person: Member, conversation: Conversation | None) -> Switches:
    """What this person switched, for all chats and for this one, and what is off until they do."""
    rows = ToolSwitch.objects.in_chat(person, conversation)
    here: dict[Place, bool] = {}
    everywhere: dict[Place, bool] = {}
    for row in rows.values_list("conversation", "service__name", "tool", "is_on"):
        chat, service, tool, is_on = row
        (everywhere if chat is None else here)[service or "", tool] = is_on
    off_at_first = Service.objects.filter(starts_on=False).values_list("name", flat=True)
    return Switches(everywhere=everywhere, here=here, off_at_first=tuple(off_at_first))


def narrowed(catalogue: Catalogue, selection: Selection) -> Catalogue:
    """What was not chosen stays known, so that a call of it can be told apart from one of nothing;
    of services that nobody wants nothing is said."""
    known = {**catalogue.withheld, **catalogue.tools}
    tools, withheld = select(catalogue.tools, selection), select(catalogue.withheld, selection)
    missing = [each for each in catalogue.missing if _is_wanted(each[0], catalogue, selection)]
    nothing = unmet(known, selection.mentions, excused=[name for name, _ in catalogue.missing])
    return replace(
        catalogue,
        tools=tools,
        withheld=withheld,
        unselected={name: known[name] for name in known.keys() - tools.keys() - withheld.keys()},
        missing=tuple(missing),
        notice=notice_of(selection, nothing, is_empty=not tools),
        is_off=selection.are_tools_off,
    )


def note_unmet(lease: Lease, catalogue: Catalogue) -> None:
    """Tell the person that something which they mentioned was of no use, and why."""
    with fenced(lease) as turn:
        sentence, hint = catalogue.notice
        entries = note_once(turn, MENTIONED, sentence, hint)
        journal.append(turn.conversation_id, turn.pk, entries)


def _is_wanted(service: str, catalogue: Catalogue, selection: Selection) -> bool:
    known = catalogue.withheld.values()
    return wants(selection, service, [t.tool_name for t in known if t.service_name == service])


def _question(turn: Turn) -> str:
    texts: Iterable[str] = Part.objects.filter(
        message=turn.question_id, kind=Part.Kind.TEXT
    ).values_list("text", flat=True)
    return "\n\n".join(texts)


def _uses_tools(turn: Turn) -> bool:
    """As the row has it now: the turn was read when it was taken up."""
    return Conversation.objects.filter(pk=turn.conversation_id, uses_tools=True).exists()
