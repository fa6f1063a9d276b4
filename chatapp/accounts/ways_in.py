"""The ways in which a member can sign in without an admin's help."""

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db.models import QuerySet

from chatapp.models import Member
from chatapp.server.sign_in_providers import find_ldap_provider

from .entries import name_provider


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


def find_ldap_account(member: Member) -> SocialAccount | None:
    """Return the member's connection to the LDAP directory, whose password signs them in."""
    provider = find_ldap_provider(settings.SIGN_IN_PROVIDERS)
    if provider is None:
        return None
    account: SocialAccount | None = SocialAccount.objects.filter(
        user=member, provider=provider.id
    ).first()
    return account


def find_password_keeper(member: Member) -> str:
    """Return the name of the LDAP directory that keeps the member's only password, or nothing."""
    if member.has_usable_password():
        return ""
    account = find_ldap_account(member)
    return name_provider(account.provider) if account else ""
