"""Second signatures: which calls wait for one, who may give it, and whether the two still hold.

The right to sign is a matter of rows and of time in each query: of groups, of stand-ins, and of how
long the requester's own signature has waited. What people answer is in `answers.py`.
"""

import uuid
from collections.abc import Iterable

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, When
from django.db.models.functions import Now
from django.utils import timezone

from chatapp.models import Approval, Member, SecondSignature, StandIn, ToolCall

Membership = Member.groups.through
UNSIGNED = "Nobody has signed this second, so it was not run."
LAPSED = "Whoever signed this second may not sign it any more, so it was not run."


def open_for(person: Member) -> QuerySet[ToolCall]:
    """The calls that wait for this person's second signature."""
    waiting = _shown_to(person).filter(
        state=Approval.State.OPEN,
        expires_at__gt=Now(),
        tool_call__state=ToolCall.State.AWAITING_APPROVAL,
    )
    return ToolCall.objects.filter(pk__in=waiting.values("pk"))


def call_for(person: Member, call_id: uuid.UUID) -> ToolCall:
    """A call of this person, or one that they may sign second, also when it is over; or 404."""
    related = ("turn__conversation__owner", "service", "definition", "approval__second")
    shown = ToolCall.objects.filter(pk__in=_shown_to(person).values("pk"), pk=call_id)
    return shown.select_related(*related).first() or ToolCall.of(person, call_id)


def right_of(person: Member, call: ToolCall) -> Member | None:
    """In whose right this person may sign this call second: their own, before that of an approver
    whom they stand in for."""
    approval = Approval.objects.filter(pk=call.pk).select_related("second").first()
    requester_id = call.turn.conversation.owner_id
    if approval is None or approval.second is None or person.pk == requester_id:
        return None
    has_escalated = Approval.objects.filter(pk=call.pk, escalates_at__lte=Now()).exists()
    groups = _groups(approval.second, has_escalated=has_escalated)
    may = _in_the_right_of(person).exclude(pk=requester_id).filter(groups__in=groups)
    return may.order_by(Case(When(pk=person.pk, then=0), default=1), "pk").first()


def flaw_of(approval: Approval, requester: Member) -> str:
    """Why a call may not run for want of a second signature that counts now, or nothing."""
    second, signer, right = approval.second, approval.decided_by, approval.signed_for
    if second is None:
        return ""
    if approval.first_by_id != requester.pk or signer is None or right is None:
        return UNSIGNED
    at = approval.decided_at
    if at is None or requester in (signer, right) or not (signer.is_active and right.is_active):
        return LAPSED
    has_escalated = approval.escalates_at is not None and approval.escalates_at <= at
    groups = _groups(second, has_escalated=has_escalated)
    is_in = right.groups.filter(pk__in=groups).exists()
    day = timezone.localdate(at)
    stood_in = StandIn.objects.filter(
        approver=right, stand_in=signer, begins_on__lte=day, ends_on__gte=day
    )
    return "" if is_in and (signer == right or stood_in.exists()) else LAPSED


def is_approver(person: Member) -> bool:
    """Whether this person is in a group that signs second."""
    signs = Q(approvers__user=person) | Q(escalation__user=person)
    return SecondSignature.objects.filter(signs).exists()


def people_asked(call_ids: Iterable[uuid.UUID]) -> set[int]:
    """Whom it concerns what becomes of these calls, because they may sign them second, or could
    later on."""
    signed = Approval.objects.filter(pk__in=call_ids, first_at__isnull=False)
    groups = {
        group
        for pair in signed.values_list("second__approvers", "second__escalation")
        for group in pair
        if group is not None
    }
    if not groups:
        return set()
    approvers = set(Member.objects.filter(groups__in=groups).values_list("pk", flat=True))
    stand_ins = StandIn.objects.filter(approver__in=approvers).values_list("stand_in", flat=True)
    return approvers | set(stand_ins)


def _shown_to(person: Member) -> QuerySet[Approval]:
    """The approvals that their requesters have signed and that this person may sign second, the
    decided ones included."""
    held = Membership.objects.filter(member__in=_in_the_right_of(person)).exclude(
        member=OuterRef("tool_call__turn__conversation__owner")
    )
    first = Exists(held.filter(group=OuterRef("second__approvers")))
    later = Exists(held.filter(group=OuterRef("second__escalation")))
    may = Q(first) | Q(later, escalates_at__lte=Now())
    signed = Approval.objects.filter(may, first_at__isnull=False)
    return signed.exclude(tool_call__turn__conversation__owner=person)


def _in_the_right_of(person: Member) -> QuerySet[Member]:
    """This person and the approvers whom they stand in for today. Nobody, for one who is not active
    any more; nobody's stand-in stands in for whoever is not active either."""
    today = timezone.localdate()
    stands_in = StandIn.objects.filter(
        approver=OuterRef("pk"), stand_in=person, begins_on__lte=today, ends_on__gte=today
    )
    active = Exists(Member.objects.filter(pk=person.pk, is_active=True))
    return Member.objects.filter(Q(pk=person.pk) | Q(Exists(stands_in)), active, is_active=True)


def _groups(second: SecondSignature, *, has_escalated: bool) -> list[int]:
    groups = [second.approvers_id]
    if has_escalated and second.escalation_id is not None:
        groups.append(second.escalation_id)
    return groups
