"""Second signatures: which calls wait for one, who may give it, and whether it is still valid.

Each query reads the right to sign from the rows of that moment: groups, delegates, and how long the
requester's own signature has waited. `chatapp/approvals/decisions.py` stores what people decide.
"""

import uuid
from collections.abc import Iterable

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, When
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from chatapp.models import Approval, Member, SecondSignature, StandIn, ToolCall
from chatapp.server.time_zones import get_server_day

Membership = Member.groups.through
UNSIGNED = gettext_lazy("The second approval is missing, so it was not run.")
LAPSED = gettext_lazy("The second approver can no longer approve this, so it was not run.")


def find_waiting_calls(person: Member) -> QuerySet[ToolCall]:
    """Return the calls that wait for this person's second signature."""
    waiting = _find_approvals(person).filter(
        state=Approval.State.OPEN,
        expires_at__gt=Now(),
        tool_call__state=ToolCall.State.AWAITING_APPROVAL,
    )
    return ToolCall.objects.filter(pk__in=waiting.values("pk"))


def get_call(person: Member, call_id: uuid.UUID) -> ToolCall:
    """Return a call of this person or one that they may sign second, finished or not. Raises
    Http404."""
    related = ("turn__conversation__owner", "service", "definition", "approval__second")
    shown = ToolCall.objects.filter(pk__in=_find_approvals(person).values("pk"), pk=call_id)
    return shown.select_related(*related).first() or ToolCall.of(person, call_id)


def find_right(person: Member, call: ToolCall) -> Member | None:
    """Return the approver in whose right this person may sign this call second: themselves, or
    otherwise an approver whose delegate they are."""
    approval = Approval.objects.filter(pk=call.pk).select_related("second").first()
    requester_id = call.turn.conversation.owner_id
    if approval is None or approval.second is None or person.pk == requester_id:
        return None
    has_escalated = Approval.objects.filter(pk=call.pk, escalates_at__lte=Now()).exists()
    groups = _list_groups(approval.second, has_escalated=has_escalated)
    may = _find_right_holders(person).exclude(pk=requester_id).filter(groups__in=groups)
    return may.order_by(Case(When(pk=person.pk, then=0), default=1), "pk").first()


def find_flaw(approval: Approval, requester: Member) -> str:
    """Return why the second signature does not permit the call now, or an empty string."""
    second, signer, right = approval.second, approval.decided_by, approval.signed_for
    if second is None:
        return ""
    if approval.first_by_id != requester.pk or signer is None or right is None:
        return str(UNSIGNED)
    at = approval.decided_at
    if at is None or requester in (signer, right) or not (signer.is_active and right.is_active):
        return str(LAPSED)
    has_escalated = approval.escalates_at is not None and approval.escalates_at <= at
    groups = _list_groups(second, has_escalated=has_escalated)
    is_in = right.groups.filter(pk__in=groups).exists()
    day = get_server_day(at)
    stood_in = StandIn.objects.filter(
        approver=right, stand_in=signer, begins_on__lte=day, ends_on__gte=day
    )
    return "" if is_in and (signer == right or stood_in.exists()) else str(LAPSED)


def is_approver(person: Member) -> bool:
    """Whether this person is in a group that gives second signatures."""
    return filter_signing(person).exists()


def filter_signing(person: Member) -> QuerySet[SecondSignature]:
    """Return the second signatures that the groups of this person give."""
    return SecondSignature.objects.filter(
        Q(approvers__user=person) | Q(escalation__user=person)
    ).order_by()


def find_people_concerned(call_ids: Iterable[uuid.UUID]) -> set[int]:
    """Return the ids of the owners of these calls and of those who may sign one of them second now
    or later. One query, unless one was signed."""
    signers = Case(When(approval__first_at__isnull=False, then="approval__second__approvers"))
    others = Case(When(approval__first_at__isnull=False, then="approval__second__escalation"))
    found = ToolCall.objects.filter(pk__in=call_ids).order_by()
    rows = list(found.values_list("turn__conversation__owner", signers, others))
    asked = _find_signers({group for _owner, *pair in rows for group in pair})
    return {owner for owner, *_pair in rows} | asked


def find_people_asked(call_ids: Iterable[uuid.UUID]) -> set[int]:
    """Return the ids of those who may sign one of these calls second now or later."""
    signed = Approval.objects.filter(pk__in=call_ids, first_at__isnull=False)
    pairs = signed.values_list("second__approvers", "second__escalation")
    return _find_signers({group for pair in pairs for group in pair})


def _find_signers(found: set[int | None]) -> set[int]:
    """Return the ids of the members of these groups and of their delegates."""
    groups = found - {None}
    if not groups:
        return set()
    approvers = set(Member.objects.filter(groups__in=groups).values_list("pk", flat=True))
    stand_ins = StandIn.objects.filter(approver__in=approvers).values_list("stand_in", flat=True)
    return approvers | set(stand_ins)


def _find_approvals(person: Member) -> QuerySet[Approval]:
    """Return the approvals that their requesters signed and that this person may sign second,
    including decided ones."""
    held = Membership.objects.filter(member__in=_find_right_holders(person)).exclude(
        member=OuterRef("tool_call__turn__conversation__owner")
    )
    first = Exists(held.filter(group=OuterRef("second__approvers")))
    later = Exists(held.filter(group=OuterRef("second__escalation")))
    may = Q(first) | Q(later, escalates_at__lte=Now())
    signed = Approval.objects.filter(may, first_at__isnull=False)
    return signed.exclude(tool_call__turn__conversation__owner=person)


def _find_right_holders(person: Member) -> QuerySet[Member]:
    """Return this person and the active approvers whose delegate they are today; nobody if the
    person is not active."""
    today = get_server_day()
    stands_in = StandIn.objects.filter(
        approver=OuterRef("pk"), stand_in=person, begins_on__lte=today, ends_on__gte=today
    )
    active = Exists(Member.objects.filter(pk=person.pk, is_active=True))
    return Member.objects.filter(Q(pk=person.pk) | Q(Exists(stands_in)), active, is_active=True)


def _list_groups(second: SecondSignature, *, has_escalated: bool) -> list[int]:
    groups = [second.approvers_id]
    if has_escalated and second.escalation_id is not None:
        groups.append(second.escalation_id)
    return groups
