"""HTML of what waits for a person: the number beside every page, the list, and what comes next."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.contrib.humanize.templatetags.humanize import naturaltime
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString

from chatapp.models import ToolCall

from . import call_values, page
from .visible import draw_hidden

Kind = Literal["approval", "second", "question", "sign_in", "outcome", "review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something that a person has to do about a call. Without `expires_at` it waits for ever."""

    kind: Kind
    call_id: uuid.UUID
    since: datetime | None
    expires_at: datetime | None

    @property
    def thing(self) -> str:
        """What tells this from all else that waits, or will, about the same call."""
        return f"{self.kind} {self.since.isoformat()}" if self.since else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Found):
    """The same with its call, to be shown."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Pile:
    """What waits of one kind: the oldest, and how many there are with those that are not shown."""

    kind: Kind
    waiting: tuple[Waiting, ...]
    count: int

    @property
    def more(self) -> int:
        return max(0, self.count - len(self.waiting))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one kind wants of the person, and how its lines begin to say since when."""

    heading: str
    since: str


WISHES: dict[Kind, Wish] = {
    "approval": Wish(heading="Run it or not", since="Asked"),
    "second": Wish(heading="Sign as the second person", since="Signed"),
    "question": Wish(heading="Answer a question", since="Asked"),
    "sign_in": Wish(heading="Sign in to a service", since="Tried"),
    "outcome": Wish(heading="Say what happened", since="Sent"),
    "review": Wish(heading="Look at a result", since="Came back"),
}
# How it stands, where the state of the call says something else.
STATES: dict[Kind, str] = {
    "second": "waiting for a second signature",
    "review": "the assistant has not seen it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the list: what, where, as whom, how it stands, in which chat or for whom, since
    when and until when."""

    element_id: str
    call_id: uuid.UUID
    title: SafeString
    brief: SafeString | str
    risk: str
    badge: str
    places: tuple[SafeString, ...]
    state: str
    of: str
    since: datetime | None
    age: str
    expires_at: datetime | None


def badge(count: int, *, says: bool = False) -> str:
    """The way to the inbox with the number of what waits, in the sidebar of every page. `says`: a
    new number is put into words for those who do not see it."""
    context = {"element_id": page.WAITING_ID, "count": count, "says": says}
    return render_to_string("chat/_waiting.html", context)


def entries(piles: Sequence[Pile], old_outcomes: int) -> str:
    """The list, by what is wanted. `old_outcomes` is the number of those that only the log has."""
    groups = [
        (WISHES[pile.kind], [_line(each) for each in pile.waiting], pile.more) for pile in piles
    ]
    context = {
        "element_id": page.INBOX_ID,
        "groups": groups,
        "old_outcomes": old_outcomes,
        "keep": _digest([groups, old_outcomes]),
    }
    return render_to_string("chat/_inbox.html", context)


def what_next(others: Sequence[Pile], current: uuid.UUID) -> str:
    """The way from the page of this call to the first of the others, and how many those are."""
    following = [_line(each) for pile in others for each in pile.waiting][:1]
    count = sum(pile.count for pile in others)
    context = {
        "element_id": page.next_id(current),
        "line": following[0] if following else None,
        "count": count,
        "keep": _digest([following, count]),
    }
    return render_to_string("chat/_next.html", context)


def _digest(shown: object) -> str:
    return hashlib.sha256(repr(shown).encode()).hexdigest()[:16]


def _line(waiting: Waiting) -> Line:
    call = waiting.call
    chat = call.turn.conversation
    # Who signs second sees nothing else of the chat, and it runs for somebody else.
    is_own = waiting.kind != "second"
    account = call_values.account_of(call) if is_own else ""
    places = (call_values.service_of(call), call_values.host_of(call), account)
    return Line(
        element_id=page.waiting_id(call.pk),
        call_id=call.pk,
        title=draw_hidden(call_values.title_of(call)),
        brief=call_values.brief_of(call),
        risk=call.risk or "medium",
        badge=f"{call.risk.capitalize()} risk" if call.risk else "Risk unknown",
        places=tuple(draw_hidden(place) for place in places if place),
        state=STATES.get(waiting.kind, call.get_state_display()),
        of=f"in “{chat}”" if is_own else f"for {chat.owner.display_name}",
        since=waiting.since,
        age=_age(waiting),
        expires_at=waiting.expires_at,
    )


def _age(waiting: Waiting) -> str:
    """Since when it waits. Nothing counts seconds: the list would never stay the same."""
    if waiting.since is None:
        return ""
    is_new = timezone.now() - waiting.since < timedelta(minutes=1)
    return f"{WISHES[waiting.kind].since} {'just now' if is_new else naturaltime(waiting.since)}"
