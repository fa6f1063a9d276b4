"""Takes ways in from a member whose account is closed, off-boarded or suspended by a directory."""

from allauth.mfa.models import Authenticator

from chatapp.api import access_tokens
from chatapp.models import AccessToken, DirectoryAccount, Member, ProviderDraft, SignInLink, Webhook
from mcpconfig.models import ServiceDraft

from .sessions import end_sessions


def lock_out(member: Member) -> None:
    """Deactivate the account in the caller's transaction, and save it. Connections to sign-in
    providers stay: without one, its provider would make a new account for the same person."""
    member.is_active = member.is_staff = member.is_superuser = False
    member.rights = []
    member.set_unusable_password()
    member.save()
    end_access(member)
    Authenticator.objects.filter(user=member).delete()
    member.groups.clear()
    member.directory_groups.clear()
    # A directory does not undo it.
    DirectoryAccount.objects.filter(member=member).update(is_suspended=False)
    member.user_permissions.clear()
    # They hold secrets that were typed for a new service or model provider.
    ServiceDraft.objects.filter(person=member).delete()
    ProviderDraft.objects.filter(person=member).delete()
    for webhook in Webhook.objects.filter(members=member):
        webhook.members.remove(member)


def end_access(member: Member) -> None:
    """End sessions with their open pages, access tokens and sign-in links at once."""
    end_sessions(member)
    for token in AccessToken.objects.filter(person=member, revoked_at=None):
        access_tokens.revoke(token)
    SignInLink.objects.filter(member=member).delete()
