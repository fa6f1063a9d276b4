"""Grants: whose they are, how long their tokens last, and the endpoint that they are valid for."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils import timezone

from mcpconfig.models import CompanySignIn, OAuthGrant, Service
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from mcp.shared.auth import OAuthToken

# Tokens are renewed this long before the end, or after nine tenths of a short life.
LEEWAY_SECONDS = 60.0
MAX_LIFETIME_SECONDS = 10 * 365 * 86_400


def get_holder_id(service: Service, acting: Acting | None) -> int | None:
    """Return whose grant an operation uses: the id of the acting person, or None for the shared
    one."""
    if service.authentication not in Service.PERSONAL or acting is None:
        return None
    return acting.user_id


def get_grant(service: Service, acting: Acting | None) -> OAuthGrant | None:
    """Return the grant for the service as it is now. One for another URL, or from another kind of
    sign-in, does not count."""
    return get_grants([service], acting).get(service.pk)


def get_grants(services: Iterable[Service], acting: Acting | None) -> dict[int, OAuthGrant]:
    """Return the grants of these services, by service, in one query."""
    by_key = {service.pk: service for service in services}
    holders = Q(person=None) if acting is None else Q(person=None) | Q(person=acting.user_id)
    rows = OAuthGrant.objects.filter(holders, service__in=list(by_key)).order_by("pk")
    related = ("client__service", "company_sign_in__identity_provider")
    found: dict[int, OAuthGrant] = {}
    for grant in rows.select_related(*related):
        if _is_valid_for(grant, by_key[grant.service_id], acting):
            found.setdefault(grant.service_id, grant)
    return found


def _is_valid_for(grant: OAuthGrant, service: Service, acting: Acting | None) -> bool:
    signed_in = grant.company_sign_in
    is_company = service.authentication == Service.Authentication.COMPANY
    return (
        grant.person_id == get_holder_id(service, acting)
        and grant.endpoint == service.endpoint
        and (signed_in is not None) == is_company
        and (signed_in is None or signed_in.identity_provider_id == service.identity_provider_id)
    )


def filter_sign_ins(
    service: Service, acting: Acting
) -> "QuerySet[OAuthGrant] | QuerySet[CompanySignIn]":
    """Return what a person stored by signing in: for that person, or for everybody."""
    person = get_holder_id(service, acting)
    if service.authentication == Service.Authentication.COMPANY:
        return CompanySignIn.objects.filter(
            identity_provider=service.identity_provider_id, person_id=person
        )
    return OAuthGrant.objects.filter(service=service, person_id=person)


def set_token(grant: OAuthGrant, token: "OAuthToken") -> None:
    """Put a new token into the row, which the caller saves. If the answer has no refresh token or
    scope, the stored one stays, as OAuth specifies."""
    oauth_secrets.encrypt_token(grant, "access", token.access_token)
    if token.refresh_token:
        oauth_secrets.encrypt_token(grant, "refresh", token.refresh_token)
    if token.scope is not None:
        grant.scope = token.scope[:10_000]
    grant.expires_at, grant.renew_at = _compute_times(token.expires_in)
    grant.is_dead = False


def _compute_times(lifetime: int | None) -> tuple[datetime | None, datetime | None]:
    """Return when a token ends and when to request the next. None: unknown."""
    if lifetime is None:
        return None, None
    now = timezone.now()
    seconds = min(max(lifetime, 0), MAX_LIFETIME_SECONDS)
    leeway = min(LEEWAY_SECONDS, seconds / 10)
    return now + timedelta(seconds=seconds), now + timedelta(seconds=seconds - leeway)


def is_fresh(grant: OAuthGrant) -> bool:
    """Whether the access token can be used without a renewal."""
    return _has_token(grant) and (grant.renew_at is None or timezone.now() < grant.renew_at)


def is_usable(grant: OAuthGrant) -> bool:
    """Whether the access token has not expired, although a new one may be due."""
    return _has_token(grant) and (grant.expires_at is None or timezone.now() < grant.expires_at)


def _has_token(grant: OAuthGrant) -> bool:
    return bool(grant.access) and not grant.is_dead
