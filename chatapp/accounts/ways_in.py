"""The ways in which a member can sign in without an admin's help."""

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db.models import QuerySet

from chatapp.models import Member


def has_other_way_in(member: Member, but: SocialAccount | Authenticator) -> bool:
    """Whether the member can sign in without this connection to a provider or this passkey."""
    if settings.PASSWORD_SIGN_IN and member.has_usable_password():
        return True
    ways = [*filter_connected(member), *list_sign_in_passkeys(member)]
    return any(way != but for way in ways)


def can_confirm_without_password(member: Member) -> bool:
    """Whether a code, a passkey or a provider can say again who this is."""
    factors = Authenticator.objects.filter(user=member)
    return factors.exists() or filter_connected(member).exists()


def filter_connected(member: Member) -> "QuerySet[SocialAccount]":
    """Return the member's connections to providers that are configured."""
    known = [provider.id for provider in settings.SIGN_IN_PROVIDERS]
    found: QuerySet[SocialAccount] = SocialAccount.objects.filter(user=member, provider__in=known)
    return found


def list_sign_in_passkeys(member: Member) -> list[Authenticator]:
    """Return the passkeys that sign in by themselves, without a password."""
    keys = Authenticator.objects.filter(user=member, type=Authenticator.Type.WEBAUTHN)
    return [key for key in keys if key.wrap().is_passwordless]
