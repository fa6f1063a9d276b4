"""Grants: whose they are, how long their tokens last, and that they open nothing but the endpoint
that they were given for."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils import timezone

from mcpconfig.acting import Acting
from mcpconfig.models import CompanySignIn, OAuthGrant, Service

from . import sealed

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from mcp.shared.auth import OAuthToken

# Renewed this long before the end, or after nine tenths of a short life.
LEEWAY_SECONDS = 60.0
MOST_SECONDS = 10 * 365 * 86_400


def holder(service: Service, acting: Acting | None) -> int | None:
    """Whose grant an operation uses: the acting person's, or the one for everybody (None)."""
    if service.authentication not in Service.PERSONAL or acting is None:
        return None
    return acting.user_id


def grant_of(service: Service, acting: Acting | None) -> OAuthGrant | None:
    """The grant for the service as it is now; one for another URL, or made with a sign-in of
    another kind, does not count."""
    return grants_of([service], acting).get(service.pk)


def grants_of(services: Iterable[Service], acting: Acting | None) -> dict[int, OAuthGrant]:
    """That of each of these services which has one, in one statement."""
    by_key = {service.pk: service for service in services}
    holders = Q(person=None) if acting is None else Q(person=None) | Q(person=acting.user_id)
    rows = OAuthGrant.objects.filter(holders, service__in=list(by_key)).order_by("pk")
    related = ("client__service", "company_sign_in__identity_provider")
    found: dict[int, OAuthGrant] = {}
    for grant in rows.select_related(*related):
        if _counts(grant, by_key[grant.service_id], acting):
            found.setdefault(grant.service_id, grant)
    return found


def _counts(grant: OAuthGrant, service: Service, acting: Acting | None) -> bool:
    signed_in = grant.company_sign_in
    is_company = service.authentication == Service.Authentication.COMPANY
    return (
        grant.person_id == holder(service, acting)
        and grant.endpoint == service.endpoint
        and (signed_in is not None) == is_company
        and (signed_in is None or signed_in.identity_provider_id == service.identity_provider_id)
    )


def sign_ins_of(
    service: Service, acting: Acting
) -> "QuerySet[OAuthGrant] | QuerySet[CompanySignIn]":
    """What a person brought by signing in, so that it serves whoever acts."""
    person = holder(service, acting)
    if service.authentication == Service.Authentication.COMPANY:
        return CompanySignIn.objects.filter(
            identity_provider=service.identity_provider_id, person_id=person
        )
    return OAuthGrant.objects.filter(service=service, person_id=person)


def take(grant: OAuthGrant, token: "OAuthToken") -> None:
    """Put a new token into the row, which the caller saves. An answer without a refresh token or a
    scope leaves the ones that are there, as OAuth has it."""
    sealed.seal_token(grant, "access", token.access_token)
    if token.refresh_token:
        sealed.seal_token(grant, "refresh", token.refresh_token)
    if token.scope is not None:
        grant.scope = token.scope[:10_000]
    grant.expires_at, grant.renew_at = _times(token.expires_in)
    grant.is_dead = False


def _times(lifetime: int | None) -> tuple[datetime | None, datetime | None]:
    """When a token ends and when to ask for the next. None: nobody said."""
    if lifetime is None:
        return None, None
    now = timezone.now()
    seconds = min(max(lifetime, 0), MOST_SECONDS)
    leeway = min(LEEWAY_SECONDS, seconds / 10)
    return now + timedelta(seconds=seconds), now + timedelta(seconds=seconds - leeway)


def is_fresh(grant: OAuthGrant) -> bool:
    """Whether the access token can be used without asking for a new one."""
    return _has_token(grant) and (grant.renew_at is None or timezone.now() < grant.renew_at)


def is_usable(grant: OAuthGrant) -> bool:
    """Whether the access token has not ended yet, although a new one may be due."""
    return _has_token(grant) and (grant.expires_at is None or timezone.now() < grant.expires_at)


def _has_token(grant: OAuthGrant) -> bool:
    return bool(grant.access) and not grant.is_dead
