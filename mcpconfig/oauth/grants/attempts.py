"""Sign-ins in progress: what is stored before a person leaves, and the check that an answer is used
once, by the person and the browser that began the sign-in."""

import hashlib
import secrets
from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from mcp.client.auth import PKCEParameters

from mcpconfig.models import OAuthAttempt
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.errors import OperationError


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequest:
    """The page that the person visits next, and the rights that are requested. `host` is shown
    before they leave; `company` is set if one sign-in serves several services."""

    url: str
    host: str
    scopes: tuple[str, ...] = ()
    is_step_up: bool = False
    company: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackParameters:
    """The query parameters with which the person's browser returned."""

    state: str = ""
    code: str = ""
    error: str = ""
    iss: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedAttempt:
    """The values that travel with the person's browser."""

    state: str
    pkce: PKCEParameters


def store_attempt(attempt: OAuthAttempt, session_key: str) -> PreparedAttempt:
    """Store the attempt. Only hashes of state and session are stored."""
    begun = PreparedAttempt(state=secrets.token_urlsafe(32), pkce=PKCEParameters.generate())
    OAuthAttempt.objects.filter(expires_at__lt=timezone.now()).delete()
    attempt.state_hash, attempt.session_hash = _hash(begun.state), _hash(session_key)
    attempt.expires_at = timezone.now() + OAuthAttempt.LIFETIME
    oauth_secrets.encrypt_verifier(attempt, begun.pkce.code_verifier)
    attempt.save()
    return begun


def claim(persons: QuerySet[OAuthAttempt], state: str, session_key: str) -> OAuthAttempt:
    """Return the attempt that this person began in this browser, and mark it as used. The attempt
    of another person is neither used nor mentioned."""
    mine = persons.filter(state_hash=_hash(state), session_hash=_hash(session_key))
    now = timezone.now()
    if not mine.filter(used_at=None, expires_at__gt=now).update(used_at=now):
        raise unfinished_sign_in_error(
            _("It began elsewhere, is over, or took longer than ten minutes.")
        )
    attempt = mine.select_related("service", "client__service", "identity_provider").get()
    if attempt.endpoint != attempt.service.endpoint:
        raise unfinished_sign_in_error(_("The service’s address has changed since."))
    return attempt


def check_issuer(attempt: OAuthAttempt, iss: str | None) -> None:
    """RFC 9207: the answer must come from the server that was asked, compared character by
    character; otherwise the code would be sent to another server."""
    is_missing = iss is None and attempt.names_its_issuer
    if is_missing or (iss is not None and iss != attempt.issuer):
        raise unfinished_sign_in_error(
            _("The response came from a different server than the one asked.")
        )


def unfinished_sign_in_error(why: str) -> OperationError:
    return OperationError(
        kind="sign_in_needed",
        message=_("This sign-in could not be finished. %(reason)s") % {"reason": why},
        hint=_("Start again under Connected services."),
        was_sent=False,
        is_definite=True,
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
