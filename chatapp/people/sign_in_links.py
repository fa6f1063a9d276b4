"""Sign-in links: for a member, and for the first admin of a new server."""

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Q

from chatapp.models import Member, SignInLink
from chatapp.server.address import base_url

FIRST_ADMIN = "admin"


def make_sign_in_link(member: Member) -> str:
    """Issue a link with which this member signs in once."""
    return f"{base_url()}/sign-in/{SignInLink.issue(member)}/"


def make_first_sign_in_link() -> str | None:
    """Issue a link for the first admin, creating them if necessary. Return None once an active
    member has set a password, or an active admin can sign in without one."""
    active = Member.objects.filter(is_active=True)
    by_other_means = Q(socialaccount__isnull=False) | Q(authenticator__type="webauthn")
    if (
        active.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX).exists()
        or active.filter(by_other_means, is_superuser=True).exists()
    ):
        return None
    admin = Member.objects.filter(is_active=True, is_superuser=True).order_by("pk").first()
    if admin is None and not Member.objects.filter(username=FIRST_ADMIN).exists():
        admin = Member.objects.create_superuser(FIRST_ADMIN)
    return None if admin is None else make_sign_in_link(admin)
