"""What the pages share that check an account before it is saved: *Add a service* and *Add a
provider*."""

from collections.abc import Iterable

from django.contrib.auth.models import Group
from django.db.models import Count, Q
from django.utils.translation import gettext as _


def list_groups(chosen: Iterable[object]) -> list[tuple[Group, bool]]:
    """Return all groups with the number of their active members, and whether each is chosen."""
    wanted = set(map(str, chosen))
    members = Count("user", filter=Q(user__is_active=True))
    groups = Group.objects.annotate(members=members).order_by("name")
    return [(group, str(group.pk) in wanted) for group in groups]


def describe_blocking(reason: str) -> str:
    """Return why the account cannot be used, and what an admin can do nevertheless."""
    text = _("It cannot be used yet: %(reason)s You can save it without enabling it.")
    return text % {"reason": reason}
