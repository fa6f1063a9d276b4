"""Which admins can approve a policy change."""

from django.contrib.auth.models import Permission
from django.db.models import Exists, OuterRef, Q

from chatapp.models import Member, PolicyChange
from chatapp.people.admin_rights import has_right

PERMISSION = "chatapp.change_policychange"
CODENAME = PERMISSION.partition(".")[2]
MOST_ADMINS = 200


def list_approvers(change: PolicyChange) -> list[Member]:
    """Return the active admins with the policy right who did not write the change, in one
    statement."""
    by_hand = Permission.objects.filter(codename=CODENAME).filter(
        Q(user=OuterRef("pk")) | Q(group__user=OuterRef("pk"))
    )
    admins = Member.objects.filter(is_active=True, is_staff=True)
    rows = admins.annotate(is_allowed=Exists(by_hand)).order_by("username")[:MOST_ADMINS]
    return [
        each
        for each in rows
        if each.pk != change.author_id and (each.is_allowed or has_right(each, "policy"))
    ]
