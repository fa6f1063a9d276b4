"""Items of the overview that an admin dismisses or snoozes. Other admins still see them."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import HiddenNeed, Member

from .needs import Need

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# For how long each button hides an item; None until its facts change.
WAYS: "dict[str, tuple[StrOrPromise, timedelta | None]]" = {
    "dismiss": (_lazy("Dismiss"), None),
    "day": (_lazy("Snooze for a day"), timedelta(days=1)),
    "week": (_lazy("Snooze for a week"), timedelta(weeks=1)),
}
# Each admin has as many rows as items were hidden lately. The oldest are deleted beyond this.
MOST_HIDDEN = 100
MAX_RANK = 100
_HASH_CHARACTERS = 64


def hash_facts(need: Need) -> str:
    """Return the hash of what the item depends on; of what it says if it names nothing else."""
    facts = need.key or f"{need.title}\n{need.fact}"
    return sha256(f"{need.name}\n{facts}".encode()).hexdigest()


def split_hidden(admin: Member, needs: Iterable[Need]) -> tuple[list[Need], int]:
    """Return the items to show, and how many this admin has hidden. One statement, and one more
    when a dismissed item is gone: if it comes again, it is a new one."""
    hidden = {row.name: row for row in HiddenNeed.objects.filter(person=admin)[:MOST_HIDDEN]}
    every, now = list(needs), timezone.now()
    names = {need.name for need in every}
    gone = [row.pk for row in hidden.values() if row.until is None and row.name not in names]
    if gone:
        HiddenNeed.objects.filter(pk__in=gone, until=None).delete()
    shown = [need for need in every if not _is_hidden(need, hidden.get(need.name), now)]
    return shown, len(every) - len(shown)


def _is_hidden(need: Need, row: HiddenNeed | None, now: datetime) -> bool:
    if row is None or need.rank < row.rank:
        return False
    return row.facts == hash_facts(need) if row.until is None else now < row.until


@require_POST
def hide_need(request: HttpRequest) -> HttpResponse:
    """Hide one item for this admin, as its page showed it, or show all that they have hidden."""
    admin = cast(Member, request.user)
    if "show" in request.POST:
        with transaction.atomic():
            HiddenNeed.objects.filter(person=admin).delete()
            _log(admin, _("all items"), _("Shown again."))
        return redirect("admin:index")
    name, act = request.POST.get("name", ""), request.POST.get("act", "")
    shown = _read_shown(request.POST)
    if not name or len(name) > 200 or not name.isprintable() or act not in WAYS or shown is None:
        messages.error(request, _("The item could not be hidden. Reload the page and try again."))
        return redirect("admin:index")
    (facts, rank), (title, duration) = shown, WAYS[act]
    with transaction.atomic():
        HiddenNeed.objects.update_or_create(
            person=admin,
            name=name,
            defaults={
                "facts": facts,
                "rank": rank,
                "until": timezone.now() + duration if duration else None,
            },
        )
        _delete_oldest(admin, name)
        _log(admin, name, str(title))
    messages.success(request, _describe(duration))
    return redirect("admin:index")


def _read_shown(posted: QueryDict) -> tuple[str, int] | None:
    """Return the hash and the rank of the item that the page showed."""
    facts, rank = posted.get("facts", ""), posted.get("rank", "")
    is_hash = len(facts) == _HASH_CHARACTERS and facts.isalnum() and facts.isascii()
    if not is_hash or not (rank.isascii() and rank.isdecimal() and len(rank) < 4):
        return None
    return facts, min(int(rank), MAX_RANK)


def _delete_oldest(admin: Member, kept: str) -> None:
    others = HiddenNeed.objects.filter(person=admin).exclude(name=kept).order_by("-pk")
    old = list(others.values_list("pk", flat=True)[MOST_HIDDEN - 1 :])
    if old:
        HiddenNeed.objects.filter(pk__in=old).delete()


def _describe(duration: timedelta | None) -> str:
    if duration is None:
        return _("Dismissed. It comes back when it changes. Other admins still see it.")
    text = ngettext(
        "Snoozed for %(days)s day. Other admins still see it.",
        "Snoozed for %(days)s days. Other admins still see it.",
        duration.days,
    )
    return text % {"days": duration.days}


def _log(admin: Member, name: str, reason: str) -> None:
    event = AuditEvent(
        kind=audit_log.Kind.NEED_HIDDEN, data={"of": name, "reason": reason}, actor=Who.of(admin)
    )
    audit_log.append([event])
