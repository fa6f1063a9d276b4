"""A draft: started, edited, discarded and opened again by its author."""

from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override

from chatapp.audit import audit_log
from chatapp.models import HousePolicy, Member, PolicyChange, PolicyEdit
from chatapp.people.refused import Refused

from .log_entries import log_change
from .rows import HOUSE_ID, PolicyRows, Values

State = PolicyChange.State
MOST_EDITS = 50
TITLE_LENGTH: int = PolicyChange._meta.get_field("title").max_length or 0
ONLY_AUTHOR = gettext_lazy("Only the author can edit this change. Start a change of your own.")
NOT_A_DRAFT = gettext_lazy("This change is no longer a draft, so it cannot be edited.")
TOO_MANY = gettext_lazy(
    "A change has at most %(number)s edits. Apply this one, then start another."
)


def lock_policy() -> None:
    """Lock the policy until the end of the transaction. Every change of the policy takes this lock
    first, so that no other can come between its check and its save."""
    HousePolicy.objects.bulk_create([HousePolicy(id=HOUSE_ID)], ignore_conflicts=True)
    HousePolicy.objects.select_for_update().get(pk=HOUSE_ID)


def needs_second_admin() -> bool:
    return HousePolicy.objects.filter(pk=HOUSE_ID, changes_need_second=True).exists()


@transaction.atomic
def start(author: Member | None, title: str, reason: str = "") -> PolicyChange:
    change = PolicyChange.objects.create(author=author, title=title[:TITLE_LENGTH], reason=reason)
    log_draft(change, "started")
    return change


def log_draft(change: PolicyChange, act: str, row: str = "") -> None:
    """Log what was done to a draft. `row` names the row that an edit is about."""
    log_change(audit_log.Kind.CHANGE_DRAFTED, change, act=act, row=row)


@transaction.atomic
def store_edit(
    change: PolicyChange,
    by: Member,
    kind: str,
    row_id: int | None,
    after: Values | None,
    *,
    edit_id: int | None = None,
) -> None:
    """Store what a row is to be, or that it is to be deleted. `edit_id` is the edit of a row that
    the change adds. An edit without a difference is removed."""
    _lock_draft(change, by)
    stored = PolicyRows.load().rows.get((kind, row_id)) if row_id else None
    if row_id and stored is None:
        raise Refused(_("This row no longer exists."))
    before = stored.values if stored else None
    if row_id:
        edit = change.edits.filter(kind=kind, row_id=row_id).first()
    else:
        edit = change.edits.filter(pk=edit_id, kind=kind).first() if edit_id else None
    edit = edit or PolicyEdit(change=change, kind=kind, row_id=row_id)
    if after == before:
        if edit.pk:
            log_draft(change, "edit removed", _name_row(edit))
            edit.delete()
    else:
        if edit.pk is None and change.edits.count() >= MOST_EDITS:
            raise Refused(TOO_MANY % {"number": MOST_EDITS})
        edit.before, edit.after = before, after
        edit.save()
        log_draft(change, "edited", _name_row(edit))
    _forget_undone(change)


@transaction.atomic
def remove_edit(change: PolicyChange, by: Member, edit_id: int) -> None:
    _lock_draft(change, by)
    edit = change.edits.filter(pk=edit_id).first()
    if edit is not None:
        log_draft(change, "edit removed", _name_row(edit))
        edit.delete()
    _forget_undone(change)


@transaction.atomic
def describe(change: PolicyChange, by: Member, title: str, reason: str) -> None:
    _lock_draft(change, by)
    PolicyChange.objects.filter(pk=change.pk).update(title=title, reason=reason)
    log_draft(change, "described")


@transaction.atomic
def discard(change: PolicyChange, by: Member) -> None:
    """End a change that is not applied. Any admin may: it takes nothing from the policy."""
    unfinished = PolicyChange.objects.filter(
        pk=change.pk, state__in=(State.DRAFT, State.WAITING, State.REJECTED)
    )
    if not unfinished.update(state=State.DISCARDED, decided_by=by, decided_at=Now()):
        raise Refused(_("This change is already applied, undone or discarded."), 409)
    log_change(audit_log.Kind.CHANGE_DISCARDED, change)


@transaction.atomic
def reopen(change: PolicyChange, by: Member) -> None:
    """Make a change that waits or was rejected a draft again."""
    if change.author_id != by.pk:
        raise Refused(ONLY_AUTHOR, 403)
    closed = PolicyChange.objects.filter(
        pk=change.pk, state__in=(State.WAITING, State.REJECTED), author=by
    )
    fields: dict[str, Any] = {"submitted_at": None, "decided_by": None, "decided_at": None}
    if not closed.update(state=State.DRAFT, note="", **fields):
        raise Refused(_("Only a change that waits or was rejected can be opened again."), 409)
    log_change(audit_log.Kind.CHANGE_REOPENED, change)


def _name_row(edit: PolicyEdit) -> str:
    """Return the row of an edit for the log, whatever the language of the person."""
    values = edit.after or edit.before or {}
    name = values.get("name") or values.get("tool") or ""
    with override("en"):
        kind = str(PolicyEdit.Kind(edit.kind).label)
    if edit.kind == PolicyEdit.Kind.HOUSE:
        return kind
    return f"{kind} “{name}”" if name else f"{kind} {edit.row_id or ''}".strip()


def _lock_draft(change: PolicyChange, by: Member) -> None:
    found = PolicyChange.objects.select_for_update().get(pk=change.pk)
    if found.author_id != by.pk:
        raise Refused(ONLY_AUTHOR, 403)
    if found.state != State.DRAFT:
        raise Refused(NOT_A_DRAFT, 409)


def _forget_undone(change: PolicyChange) -> None:
    """An undo that somebody edits is a change like others."""
    change.undoes = None
    PolicyChange.objects.filter(pk=change.pk).exclude(undoes=None).update(undoes=None)


def find_values(change: PolicyChange, kind: str, row_id: int) -> Values | None:
    """Return what the draft makes of a stored row; None if it does not edit it."""
    edit = change.edits.filter(kind=kind, row_id=row_id).first()
    return edit.after if edit else None
