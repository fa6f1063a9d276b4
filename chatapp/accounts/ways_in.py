"""The ways in which a member can sign in without an admin's help."""

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings

from chatapp.models import Member


def has_other_way_in(member: Member, but: SocialAccount) -> bool:
    """Whether the member can sign in without this connection to a provider."""
    if settings.PASSWORD_SIGN_IN and member.has_usable_password():
        return True
    known = [provider.id for provider in settings.SIGN_IN_PROVIDERS]
    others = SocialAccount.objects.filter(user=member, provider__in=known).exclude(pk=but.pk)
    return others.exists() or has_sign_in_passkey(member)


def has_sign_in_passkey(member: Member) -> bool:
    """Whether one of the passkeys signs in by itself, without a password."""
    keys = Authenticator.objects.filter(user=member, type=Authenticator.Type.WEBAUTHN)
    return any(key.wrap().is_passwordless for key in keys)
