"""Takes all ways in from a member, for an account that is closed or off-boarded."""

from allauth.mfa.models import Authenticator

from chatapp.api import access_tokens
from chatapp.models import AccessToken, DirectoryAccount, Member, SignInLink, Webhook
from mcpconfig.models import ServiceDraft

from .sessions import end_sessions


def lock_out(member: Member) -> None:
    """Deactivate the account in the caller's transaction, and save it. Connections to sign-in
    providers stay: without one, its provider would make a new account for the same person."""
    member.is_active = member.is_staff = member.is_superuser = False
    member.rights = []
    member.set_unusable_password()
    member.save()
    end_sessions(member)
    for token in AccessToken.objects.filter(person=member, revoked_at=None):
        access_tokens.revoke(token)
    Authenticator.objects.filter(user=member).delete()
    SignInLink.objects.filter(member=member).delete()
    member.groups.clear()
    member.directory_groups.clear()
    # A directory does not undo it.
    DirectoryAccount.objects.filter(member=member).update(is_suspended=False)
    member.user_permissions.clear()
    # They hold secrets that were typed for a new service.
    ServiceDraft.objects.filter(person=member).delete()
    for webhook in Webhook.objects.filter(members=member):
        webhook.members.remove(member)
