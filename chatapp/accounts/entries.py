"""Entries of the activity log about accounts."""

from typing import Any

from allauth.mfa import signals as factor_signals
from allauth.mfa.models import Authenticator
from allauth.socialaccount import signals as provider_signals
from django.conf import settings

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import LogEntry, Member

Kind = LogEntry.Kind
FACTORS = {
    Authenticator.Type.TOTP: "authenticator app",
    Authenticator.Type.RECOVERY_CODES: "recovery codes",
    Authenticator.Type.WEBAUTHN: "passkey",
}


def write(
    kind: LogEntry.Kind, person: Member | None, actor: Who | None = None, **data: Any
) -> None:
    """Append an entry about this person, by them or by `actor`."""
    who = Who.of(person)
    audit_log.append([AuditEvent(kind=kind, data=data, actor=actor or who, person=who)])


def write_sign_in_link(member: Member, actor: Who) -> None:
    """Append that somebody made a link that signs this member in. Who has it acts as the member."""
    write(Kind.MEMBER, member, actor, of=f"member {member.username}", act="link made")


def name_provider(provider_id: str) -> str:
    """Return the name of a configured provider, or the id of one that is gone."""
    names = {provider.id: provider.name for provider in settings.SIGN_IN_PROVIDERS}
    return names.get(provider_id, provider_id)


def connect_signals() -> None:
    factor_signals.authenticator_added.connect(_log_added, dispatch_uid="log-factor-added")
    factor_signals.authenticator_removed.connect(_log_removed, dispatch_uid="log-factor-removed")
    factor_signals.authenticator_reset.connect(_log_reset, dispatch_uid="log-factor-reset")
    provider_signals.social_account_added.connect(_log_connected, dispatch_uid="log-provider-added")
    provider_signals.social_account_removed.connect(
        _log_disconnected, dispatch_uid="log-provider-removed"
    )


def _log_added(user: Member, authenticator: Authenticator, **_facts: Any) -> None:
    write(Kind.FACTOR_ADDED, user, of=FACTORS[authenticator.type])


def _log_removed(user: Member, authenticator: Authenticator, **_facts: Any) -> None:
    write(Kind.FACTOR_REMOVED, user, of=FACTORS[authenticator.type])


def _log_reset(user: Member, **_facts: Any) -> None:
    write(Kind.FACTOR_RESET, user)


def _log_connected(sociallogin: Any, **_facts: Any) -> None:
    account = sociallogin.account
    write(Kind.PROVIDER_ADDED, account.user, of=name_provider(account.provider))


def _log_disconnected(socialaccount: Any, **_facts: Any) -> None:
    write(Kind.PROVIDER_REMOVED, socialaccount.user, of=name_provider(socialaccount.provider))
