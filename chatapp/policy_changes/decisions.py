"""What is decided about a change: submitted, approved, rejected, applied and undone.

A decision names the version that was shown. If the policy or the draft is another by then, the
decision is refused, and the page shows the new difference.
"""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import ProtectedError
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.audit import audit_log
from chatapp.models import Member, PolicyChange, PolicyEdit
from chatapp.people.refused import Refused
from chatapp.simulation.policy_tests import FailedTest, list_newly_failing, name_failing

from .drafting import ONLY_AUTHOR, lock_policy, start
from .log_entries import log_change
from .proposal import Proposal, Step, hash_json, load_proposal
from .rows import GROUPS, MODELS, Kind, PolicyRows, are_equal, read_values

State = PolicyChange.State
STALE = gettext_lazy(
    "Nothing was changed, because the policy or this change is different from what you were shown. "
    "Review it again."
)
MOVED_ON = gettext_lazy("Nothing was changed. This change is “%(state)s” now.")
NEEDS_SECOND = gettext_lazy("Policy changes need a second admin. Send this change for approval.")
OWN_CHANGE = gettext_lazy("Another admin must approve this change, because it is yours.")
EMPTY = gettext_lazy("This change has no edits yet.")
# The order in which rows are saved; they are deleted in reverse.
ORDER = (Kind.SECOND, Kind.HOUSE, Kind.RULE, Kind.LIMIT)


class ChangeRefused(Refused):
    """The change was not submitted or applied, for these reasons."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__(" ".join(sentences))
        self.sentences = list(sentences)


@transaction.atomic
def submit(change_id: int, by: Member, version: str) -> None:
    """Send a draft to the other admins. They could not apply it if a policy test fails."""
    change = _lock(change_id, State.DRAFT)
    if change.author_id != by.pk:
        raise Refused(ONLY_AUTHOR, 403)
    proposal = load_proposal(change)
    _check(proposal, version)
    _submit(proposal)


def _submit(proposal: Proposal) -> None:
    change = proposal.change
    PolicyChange.objects.filter(pk=change.pk).update(state=State.WAITING, submitted_at=Now())
    log_change(audit_log.Kind.CHANGE_SUBMITTED, change, proposal.steps, version=proposal.version)


@transaction.atomic
def approve(change_id: int, by: Member, version: str, note: str = "") -> None:
    """Approve the change of another admin and apply it."""
    lock_policy()
    change = _lock(change_id, State.WAITING)
    if change.author_id == by.pk:
        raise Refused(OWN_CHANGE, 403)
    proposal = load_proposal(change)
    _check(proposal, version)
    PolicyChange.objects.filter(pk=change_id).update(decided_by=by, decided_at=Now(), note=note)
    log_change(audit_log.Kind.CHANGE_APPROVED, change, reason=note, version=version)
    _apply(proposal, by)


@transaction.atomic
def reject(change_id: int, by: Member, note: str) -> None:
    change = _lock(change_id, State.WAITING)
    if change.author_id == by.pk:
        raise Refused(OWN_CHANGE, 403)
    PolicyChange.objects.filter(pk=change_id).update(
        state=State.REJECTED, decided_by=by, decided_at=Now(), note=note
    )
    log_change(audit_log.Kind.CHANGE_REJECTED, change, reason=note)


@transaction.atomic
def apply_change(change_id: int, by: Member, version: str) -> None:
    """Apply a draft, where no second admin is needed."""
    lock_policy()
    change = _lock(change_id, State.DRAFT)
    proposal = load_proposal(change)
    if proposal.needs_second:
        raise Refused(NEEDS_SECOND)
    _check(proposal, version)
    _apply(proposal, by)


@transaction.atomic
def apply_as_operator(change_id: int) -> None:
    """Apply a draft or a change that waits. An operator of the server needs no second admin."""
    lock_policy()
    change = _lock(change_id, State.DRAFT, State.WAITING)
    proposal = load_proposal(change)
    _check(proposal, None)
    _apply(proposal, None)


# --- undoing -----------------------------------------------------------------------------------
@transaction.atomic
def undo(change_id: int, by: Member | None) -> tuple[PolicyChange, Refused | None]:
    """Make the reverse change, and apply it or send it for approval.

    If a policy test prevents that, return it as a draft with the refusal. If its rows were changed
    later, raise Refused. `by` is None for an operator.
    """
    lock_policy()
    change = _lock(change_id, State.APPLIED)
    edits = list(change.edits.all())
    _refuse_touched(edits)
    if change.undone_by.filter(state__in=(State.DRAFT, State.WAITING)).exists():
        raise Refused(_("There is already a change that undoes this one. Finish it first."), 409)
    reverse = _draft_reverse(change, edits, by)
    try:
        with transaction.atomic():
            proposal = load_proposal(reverse)
            _check(proposal, None)
            if by is not None and proposal.needs_second:
                _submit(proposal)
            else:
                _apply(proposal, by)
    except Refused as refusal:
        return reverse, refusal
    return reverse, None


def _refuse_touched(edits: Sequence[PolicyEdit]) -> None:
    stored = PolicyRows.load().rows
    touched = []
    for edit in edits:
        row = stored.get((edit.kind, edit.row_id or 0))
        if not are_equal(row.values if row else None, edit.after):
            touched.append(row.title if row else f"{Kind(edit.kind).label} {edit.row_id}")
    if touched:
        text = _(
            "This change cannot be undone, because these were changed after it: %(rows)s. Start a "
            "new change instead."
        )
        raise Refused(text % {"rows": ", ".join(touched)}, 409)


def _draft_reverse(
    change: PolicyChange, edits: Sequence[PolicyEdit], by: Member | None
) -> PolicyChange:
    title = _("Undo: %(title)s") % {"title": change.title}
    reverse = start(by, title)
    reverse.undoes = change
    reverse.save(update_fields=["undoes"])
    PolicyEdit.objects.bulk_create(
        PolicyEdit(
            change=reverse,
            kind=edit.kind,
            row_id=edit.row_id,
            before=edit.after,
            after=edit.before,
        )
        for edit in edits
    )
    return reverse


# --- checking and applying ---------------------------------------------------------------------
def _lock(change_id: int, *states: str) -> PolicyChange:
    """Lock the change, which must be in one of these states."""
    rows = PolicyChange.objects.select_for_update(of=("self",)).select_related("author")
    change = rows.get(pk=change_id)
    if change.state not in states:
        raise Refused(MOVED_ON % {"state": change.get_state_display()}, 409)
    return change


def _check(proposal: Proposal, version: str | None) -> None:
    """Refuse what was not shown, what cannot be applied and what breaks a policy test."""
    if version is not None and version != proposal.version:
        raise Refused(STALE, 409)
    if not proposal.steps:
        raise Refused(EMPTY)
    if proposal.problems:
        raise ChangeRefused(proposal.problems)
    undone = proposal.change.undoes
    if undone is not None and any(step.has_moved for step in proposal.steps):
        _refuse_touched(list(undone.edits.all()))
    failing = list_newly_failing(proposal.stored.policy_set, proposal.drafted.policy_set)
    if failing:
        raise ChangeRefused(_describe_failing(failing))


def _describe_failing(failing: Sequence[FailedTest]) -> list[str]:
    number = len(failing)
    text = ngettext(
        "Nothing was changed, because a policy test would fail.",
        "Nothing was changed, because %(number)s policy tests would fail.",
        number,
    )
    return [text % {"number": number}, *name_failing(failing)]


def _apply(proposal: Proposal, by: Member | None) -> None:
    change, before = proposal.change, hash_json(proposal.stored.values)
    moved = PolicyChange.objects.filter(pk=change.pk, state=change.state).update(
        state=State.APPLIED, applied_by=by, applied_at=Now()
    )
    if not moved:
        raise Refused(STALE, 409)
    for step in sorted(proposal.steps, key=_get_place):
        try:
            _write(step)
        except (ValidationError, ProtectedError) as error:
            raise ChangeRefused([_explain(step, error)]) from error
    hashes: dict[str, Any] = {
        "version": proposal.version,
        "policy_before": before,
        "policy_after": hash_json(PolicyRows.load().values),
    }
    log_change(audit_log.Kind.CHANGE_APPLIED, change, proposal.steps, **hashes)
    if change.undoes is not None:
        PolicyChange.objects.filter(pk=change.undoes.pk).update(state=State.UNDONE)
        log_change(audit_log.Kind.CHANGE_UNDONE, change.undoes, by_change=change.pk)


def _get_place(step: Step) -> int:
    place = ORDER.index(Kind(step.edit.kind))
    return place if step.after is not None else 2 * len(ORDER) - place


def _write(step: Step) -> None:
    """Save or delete the row, and store in the edit what was really there before and after."""
    edit, before, after = step.edit, step.before, step.after
    edit.before = before.values if before else None
    if after is None:
        MODELS[edit.kind]._default_manager.get(pk=edit.row_id).delete()
    else:
        row = after.row
        row._state.adding = before is None
        row.full_clean()
        row.save()
        if name := GROUPS.get(edit.kind):
            getattr(row, name).set(after.groups)
        edit.row_id, edit.after = row.pk, read_values(row, after.groups)
    edit.save()


def _explain(step: Step, error: ValidationError | ProtectedError) -> str:
    if isinstance(error, ProtectedError):
        return _("The %(row)s cannot be removed, because tool calls name it.") % {"row": step.title}
    values = {"row": step.title, "reason": " ".join(error.messages)}
    return _("The %(row)s cannot be saved. %(reason)s") % values
