"""What a person's open pages are shown beside a conversation: fragments by the id of their element.

Each message holds whole fragments as they are now, so that one that is lost is made good by the
next.
"""

import asyncio
import contextlib
import logging
import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.http import Http404

from chatapp.models import Conversation, Member
from chatapp.rendering import fragments, inbox, page, second_signature
from chatapp.storage import in_database
from chatapp.turns import workplace
from chatapp.turns.frames import state_frame_of
from chatapp.turns.live import Viewer
from chatapp.turns.people import Bell
from chatapp.turns.second_signatures import call_for
from chatapp.turns.tool_menu import button_of
from chatapp.turns.waiting import count_for, old_outcomes, others, waiting_for

log = logging.getLogger(__name__)
LOOK_SECONDS = 20.0
PACE_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose page it is, the conversation that is open on it, and the row whose id the element's id
    ends with."""

    person: Member
    conversation_id: uuid.UUID | None
    subject: uuid.UUID | None


def _badge(place: Place) -> str:
    # A card that comes into the open conversation says more about itself.
    return inbox.badge(count_for(place.person), says=place.conversation_id is None)


def _inbox(place: Place) -> str:
    return inbox.entries(waiting_for(place.person), old_outcomes(place.person))


def _next(place: Place) -> str:
    subject = _subject(place)
    return inbox.what_next(others(place.person, subject), subject)


def _tool_call(place: Place) -> str:
    call = call_for(place.person, _subject(place))
    is_own = call.turn.conversation.owner_id == place.person.pk
    return fragments.tool_call(call) if is_own else second_signature.card(call)


def _tools(place: Place) -> str:
    chat = Conversation.of(place.person, place.conversation_id) if place.conversation_id else None
    return button_of(place.person, chat, is_live=True)


def _subject(place: Place) -> uuid.UUID:
    if place.subject is None:
        raise Http404("This element belongs to a row.")
    return place.subject


# The fragments that a page may name in `shows` of its socket's address, by the id of their one root
# element, without the id of a row that may follow. `data-keep` on it leaves what has not changed
# alone on the page.
FRAGMENTS: dict[str, Callable[[Place], str]] = {
    page.WAITING_ID: _badge,
    page.INBOX_ID: _inbox,
    "next": _next,
    "tool-call": _tool_call,
    page.TOOLS_ID: _tools,
}
ELEMENT = re.compile(r"([a-z-]+?)(?:-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?")
MOST_SHOWN = 8


async def follow(
    person_id: int, conversation_id: uuid.UUID | None, shows: Iterable[str], viewer: Viewer
) -> None:
    """Hand the page these fragments at once, and again when they have changed, for ever.

    `tell` wakes it; it also looks by itself, since time passes too.
    """
    wanted = wanted_of(shows)
    if not wanted:
        return
    hub = workplace.current().hub
    bell = await hub.join_person(person_id)
    shown: dict[str, str] = {}
    try:
        while True:
            bell.clear()
            fresh = await _look(person_id, conversation_id, wanted)
            # When a card was made is no change of it: the page keeps that of its first showing.
            timeless = {key: fragments.timeless(html) for key, html in fresh.items()}
            changed = [key for key, html in timeless.items() if shown.get(key) != html]
            if changed:
                viewer.take(state_frame_of([("o", key, fresh[key]) for key in changed]))
            shown |= timeless
            await _time_to_look(bell)
    finally:
        hub.leave_person(person_id, bell)


async def _time_to_look(bell: Bell) -> None:
    """Returns when the bell rings, but not at once, and after a while in any case."""
    await asyncio.sleep(PACE_SECONDS)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            await bell.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One element that a page has."""

    element_id: str
    name: str
    subject: uuid.UUID | None


def _row_id(text: str | None) -> uuid.UUID | None:
    return uuid.UUID(text) if text else None


def wanted_of(shows: Iterable[str]) -> list[Wanted]:
    """Those of these element ids that are known here; a page has few."""
    found = [match for each in shows if (match := ELEMENT.fullmatch(each))]
    return [
        Wanted(element_id=match[0], name=match[1], subject=_row_id(match[2]))
        for match in found
        if match[1] in FRAGMENTS
    ][:MOST_SHOWN]


async def _look(
    person_id: int, conversation_id: uuid.UUID | None, wanted: Iterable[Wanted]
) -> dict[str, str]:
    """The fragments as they are; none where they cannot be read just now."""
    try:
        return await in_database(rendered, person_id, conversation_id, wanted)
    except Exception:
        log.exception("What is shown to person %s could not be read; it is tried again", person_id)
        return {}


def rendered(
    person_id: int, conversation_id: uuid.UUID | None, wanted: Iterable[Wanted]
) -> dict[str, str]:
    """The HTML of each element, but of those that this person may not see or that are gone."""
    person = Member.objects.get(pk=person_id)
    found = {}
    for each in wanted:
        place = Place(person=person, conversation_id=conversation_id, subject=each.subject)
        with contextlib.suppress(Http404):
            found[each.element_id] = FRAGMENTS[each.name](place)
    return found
