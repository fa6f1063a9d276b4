"""Sign-ins under way: what is remembered before a person leaves, and that what comes back counts
once, for the person and the browser that began it."""

import hashlib
import secrets
from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils import timezone
from mcp.client.auth import PKCEParameters

from mcpconfig.errors import OperationError
from mcpconfig.models import OAuthAttempt

from . import sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequest:
    """Where the person goes next, and what will be asked for in their name. `host` is shown before
    they leave; `company` is where one sign-in serves several services."""

    url: str
    host: str
    scopes: tuple[str, ...] = ()
    is_step_up: bool = False
    company: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What the person's browser brought back, as it stood in the address."""

    state: str = ""
    code: str = ""
    error: str = ""
    iss: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What travels with the person."""

    state: str
    pkce: PKCEParameters


def keep(attempt: OAuthAttempt, session_key: str) -> Begun:
    """Store what must come back. Of state and session only hashes are kept."""
    begun = Begun(state=secrets.token_urlsafe(32), pkce=PKCEParameters.generate())
    OAuthAttempt.objects.filter(expires_at__lt=timezone.now()).delete()
    attempt.state_hash, attempt.session_hash = _hash(begun.state), _hash(session_key)
    attempt.expires_at = timezone.now() + OAuthAttempt.LIFETIME
    sealed.seal_verifier(attempt, begun.pkce.code_verifier)
    attempt.save()
    return begun


def claim(persons: QuerySet[OAuthAttempt], state: str, session_key: str) -> OAuthAttempt:
    """The one of this person's attempts that they began in this browser, taken so that nobody takes
    it again. Somebody else's attempt is neither taken nor told of."""
    mine = persons.filter(state_hash=_hash(state), session_hash=_hash(session_key))
    now = timezone.now()
    if not mine.filter(used_at=None, expires_at__gt=now).update(used_at=now):
        raise not_signed_in("It was begun elsewhere, is over, or took longer than ten minutes.")
    attempt = mine.select_related("service", "client__service", "identity_provider").get()
    if attempt.endpoint != attempt.service.endpoint:
        raise not_signed_in("The service has a new address since.")
    return attempt


def check_issuer(attempt: OAuthAttempt, iss: str | None) -> None:
    """RFC 9207: the answer must come from the server that was asked, which is compared letter by
    letter; otherwise the code would be handed to another one."""
    is_missing = iss is None and attempt.names_its_issuer
    if is_missing or (iss is not None and iss != attempt.issuer):
        raise not_signed_in("The answer came from another server than the one that was asked.")


def not_signed_in(why: str) -> OperationError:
    return OperationError(
        kind="sign_in_needed",
        message=f"This sign-in could not be finished. {why}",
        hint="Start again on the page of services.",
        was_sent=False,
        is_definite=True,
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
