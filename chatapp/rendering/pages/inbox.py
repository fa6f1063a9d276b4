"""The inbox: the number on every page, the list, the link to the next call, and the mail about
waiting calls. The mail names service, tool and risk, never a value of a call."""

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from django.contrib.humanize.templatetags.humanize import naturaltime
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.models import Approval, Conversation, Member, ToolCall
from chatapp.rendering import call_values, page_values
from chatapp.rendering.cards.approval_card import RowDecision, build_row_decision
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.page_values import CallFacts

from .fragments import sign_shown_at

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Kind = Literal["approval", "second", "question", "sign_in", "outcome", "review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingItem:
    """Something that a person has to do about a call. Without `expires_at` it does not expire."""

    kind: Kind
    call_id: uuid.UUID
    since: datetime | None
    expires_at: datetime | None

    @property
    def thing(self) -> str:
        """A key that is unique among everything that ever waits about the same call."""
        return f"{self.kind} {self.since.isoformat()}" if self.since else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall(WaitingItem):
    """A waiting item with its call. `names_person`: the service of the call learns who acts.
    `needs_admin`: the person cannot sign in to the service, an admin has to."""

    call: ToolCall
    names_person: bool = False
    needs_admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """The oldest waiting calls of one kind, and the count of all of them."""

    kind: Kind
    waiting: tuple[WaitingCall, ...]
    count: int

    @property
    def more(self) -> int:
        return max(0, self.count - len(self.waiting))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTexts:
    """The heading of one kind, and the text about the time since which its calls wait."""

    heading: "StrOrPromise"
    since: "StrOrPromise"


KIND_TEXTS: dict[Kind, KindTexts] = {
    "approval": KindTexts(
        heading=gettext_lazy("Needs your approval"), since=gettext_lazy("Asked %(time)s")
    ),
    "second": KindTexts(
        heading=gettext_lazy("Needs a second approval"),
        since=gettext_lazy("First approval %(time)s"),
    ),
    "question": KindTexts(
        heading=gettext_lazy("Needs your answer"), since=gettext_lazy("Asked %(time)s")
    ),
    "sign_in": KindTexts(
        heading=gettext_lazy("Needs a sign-in"), since=gettext_lazy("Tried %(time)s")
    ),
    "outcome": KindTexts(
        heading=gettext_lazy("Outcome unknown"), since=gettext_lazy("Sent %(time)s")
    ),
    "review": KindTexts(
        heading=gettext_lazy("Needs your review"), since=gettext_lazy("Received %(time)s")
    ),
}
# Texts for kinds that the state of the call does not describe.
STATES: "dict[Kind, StrOrPromise]" = {
    "second": gettext_lazy("waiting for a second approval"),
    "review": gettext_lazy("waiting for your review"),
}
NO_FACTS: Mapping[uuid.UUID, CallFacts] = MappingProxyType({})
# The kinds whose cards open in their rows.
OPENED_IN_ROW: tuple[Kind, ...] = ("approval", "second")

RISKS = {
    "low": gettext_lazy("Low risk"),
    "medium": gettext_lazy("Medium risk"),
    "high": gettext_lazy("High risk"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the list, ready to be shown."""

    element_id: str
    call_id: uuid.UUID
    link: str
    opens_here: bool
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
    is_review: bool
    decision: RowDecision | None = None
    answer_id: str = ""
    shown_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedCard:
    """The card of a call as its chat shows it, with the text of the assistant before it. A second
    signer has neither that text nor the chat."""

    html: SafeString
    note: SafeString | str = ""
    chat: Conversation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAnswer:
    """The outcome of a decision in a row: `refusal` is shown in that row, `html` above the list."""

    call_id: uuid.UUID
    refusal: str = ""
    html: SafeString | str = ""


def build_inbox_address(opened: uuid.UUID) -> str:
    """Return the address of the inbox with the card of this call open in its row."""
    return f"{reverse('approvals')}?open={opened}#{page_values.opened_id(opened)}"


def render_badge(count: int, *, says: bool = False) -> str:
    """Return the link to the inbox with the number of waiting calls, for the sidebar of every page.
    `says`: screen readers announce the number."""
    context = {"element_id": page_values.WAITING_ID, "count": count, "says": says}
    return render_to_string("chat/_waiting.html", context)


def render_inbox(
    piles: Sequence[WaitingGroup],
    old_outcomes: int,
    opened: uuid.UUID | None = None,
    card: OpenedCard | None = None,
    *,
    facts: Mapping[uuid.UUID, CallFacts] = NO_FACTS,
    answer: RowAnswer | None = None,
    csrf_token: str = "",
) -> str:
    """Return the list by kind. `old_outcomes` counts the old calls that only the log lists. Calls
    with `facts` may be decided in their row; `answer` is that to such a decision.

    `opened` is the call whose card is open in its row. A live frame has no `card`: the page keeps
    the one that it shows, which is a live fragment of its own.
    """
    groups = [
        (
            KIND_TEXTS[pile.kind],
            [_build_line(each, in_inbox=True, facts=facts) for each in pile.waiting],
            pile.more,
        )
        for pile in piles
    ]
    keep = _hash_shown([groups, old_outcomes])
    decided_in_row = {
        line.call_id for _texts, lines, _more in groups for line in lines if line.decision
    }
    context = {
        "element_id": page_values.inbox_id(opened),
        "groups": [(texts, [_sign(each) for each in lines], more) for texts, lines, more in groups],
        "old_outcomes": old_outcomes,
        "keep": keep,
        "opened": opened,
        "opened_id": page_values.opened_id(opened) if opened else "",
        "opened_answer_id": page_values.answer_id(opened) if opened else "",
        "card": card,
        "answer": answer,
        # The row may have no buttons any more.
        "refused_above": bool(answer and answer.call_id not in decided_in_row),
        "focused": _find_focused(piles, answer) if answer else None,
        "csrf_token": csrf_token,
    }
    return render_to_string("chat/_inbox.html", context)


def _find_focused(piles: Sequence[WaitingGroup], answer: RowAnswer) -> uuid.UUID | None:
    """Return the call whose row takes the focus: the one that was refused, or else the first."""
    calls = [each.call_id for pile in piles for each in pile.waiting]
    return answer.call_id if answer.call_id in calls else next(iter(calls), None)


def _sign(line: Line) -> Line:
    """Add the time at which a row with buttons is shown: none is decided sooner than it is read,
    also when the rows have moved."""
    if line.decision is None:
        return line
    return replace(line, shown_at=sign_shown_at(line.call_id, time.time()))


def render_next(others: Sequence[WaitingGroup], current: uuid.UUID) -> str:
    """Return the link from the page of this call to the first other waiting call, with their
    count."""
    following = [_build_line(each) for pile in others for each in pile.waiting][:1]
    count = sum(pile.count for pile in others)
    context = {
        "element_id": page_values.next_id(current),
        "line": following[0] if following else None,
        "count": count,
        "keep": _hash_shown([following, count]),
    }
    return render_to_string("chat/_next.html", context)


def _hash_shown(shown: object) -> str:
    return hashlib.sha256(repr(shown).encode()).hexdigest()[:16]


def _build_line(
    waiting: WaitingCall,
    *,
    in_inbox: bool = False,
    facts: Mapping[uuid.UUID, CallFacts] = NO_FACTS,
) -> Line:
    """Return the line of a call. `in_inbox`: its card opens in its row, and not on a page of its
    own."""
    call = waiting.call
    chat = call.turn.conversation
    # A second signer sees nothing else of the chat, and the call runs for somebody else.
    is_own = waiting.kind != "second"
    account = (
        call_values.describe_account(call, names_person=waiting.names_person)
        if is_own and waiting.kind != "sign_in"
        else ""
    )
    age = _describe_age(waiting)
    opens_here = in_inbox and waiting.kind in OPENED_IN_ROW
    places = (call_values.describe_service(call), call_values.get_host(call), account)
    return Line(
        element_id=page_values.waiting_id(call.pk),
        call_id=call.pk,
        link=build_inbox_address(call.pk) if opens_here else reverse("approval", args=[call.pk]),
        opens_here=opens_here,
        title=draw_hidden(call_values.get_title(call)),
        brief=call_values.draw_brief(call),
        risk=call.risk or "medium",
        badge=str(RISKS.get(call.risk) or _("Risk unknown")),
        places=tuple(draw_hidden(place) for place in places if place),
        state=_describe_state(waiting),
        of=_describe_origin(chat, is_own=is_own, has_age=bool(age)),
        since=waiting.since,
        age=age,
        expires_at=waiting.expires_at,
        is_review=waiting.kind == "review",
        decision=build_row_decision(call, facts[call.pk]) if call.pk in facts else None,
        answer_id=page_values.answer_id(call.pk),
    )


def _describe_state(waiting: WaitingCall) -> str:
    if waiting.kind == "sign_in" and waiting.needs_admin:
        return _("waiting for an admin to sign in")
    # The row of an open card stays when its approval is answered.
    if waiting.kind in OPENED_IN_ROW:
        approval: Approval = waiting.call.approval
        if approval.waits_for_second:
            return str(STATES["second"])
        decided = approval if waiting.kind == "second" else waiting.call
        return str(decided.get_state_display())
    return str(STATES.get(waiting.kind) or waiting.call.get_state_display())


def _describe_origin(chat: Conversation, *, is_own: bool, has_age: bool) -> str:
    """Return for whom the call runs, or the chat in which it was made: the end of the sentence
    with its age, or a sentence of its own."""
    if not is_own:
        text = _("· requested by %(name)s") if has_age else _("Requested by %(name)s")
        return text % {"name": chat.owner.display_name}
    text = _("in “%(chat)s”") if has_age else _("Asked in “%(chat)s”")
    return text % {"chat": chat}


def _describe_age(waiting: WaitingCall) -> str:
    """Return since when it waits. Seconds are not counted, because the list would change all the
    time."""
    if waiting.since is None:
        return ""
    is_new = timezone.now() - waiting.since < timedelta(minutes=1)
    time = _("just now") if is_new else naturaltime(waiting.since)
    return str(KIND_TEXTS[waiting.kind].since) % {"time": time}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One waiting call, and the link that opens it."""

    waiting: WaitingCall
    link: str

    @property
    def wish(self) -> str:
        return str(KIND_TEXTS[self.waiting.kind].heading)

    @property
    def service(self) -> str:
        """The name that an admin gave. Text of the service stays out of mails, because it could
        contain misleading links; the id of a tool has only letters, digits and three signs."""
        return str(self.waiting.call.service or "none")


def render_mail(person: Member, items: Sequence[Item], home: str) -> tuple[str, str]:
    """Return the subject and the text."""
    count = len(items)
    subject = ngettext(
        "%(count)d request is waiting for you in Countersign",
        "%(count)d requests are waiting for you in Countersign",
        count,
    )
    context = {"person": person, "items": items, "home": home}
    return subject % {"count": count}, render_to_string("mail/reminder.txt", context)
