"""Sign-ins and client registrations as admins see and end them. Contains no token."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mcpconfig.models import CompanySignIn, OAuthChallenge, OAuthClient, OAuthGrant, Service

from .company import identities
from .removal import delete_sign_in
from .sign_in_status import ConnectionState, can_open_service


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """One grant. `person` is None for a shared sign-in; `wanted` are rights that the service has
    requested since and that the sign-in does not have."""

    id: int
    person: Any | None
    since: datetime | None
    scopes: tuple[str, ...]
    expires_at: datetime | None
    is_renewed: bool
    state: ConnectionState
    wanted: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether only another sign-in helps."""
        return self.state == ConnectionState.CONNECT_AGAIN


def list_sign_ins(service: Service) -> list[SignIn]:
    """Return all stored sign-ins to this service; no server is asked."""
    return list_sign_ins_by_service([service])[service.pk]


def list_sign_ins_by_service(services: Iterable[Service]) -> defaultdict[int, list[SignIn]]:
    """Return the sign-ins of many services in three queries."""
    services = list(services)
    found = _list_grant_sign_ins(services)
    found.update(_list_company_sign_ins(services))
    return found


def _list_company_sign_ins(services: list[Service]) -> dict[int, list[SignIn]]:
    """Return the sign-ins at the identity providers, whether or not the service was used since."""
    named = {
        service.pk: service.identity_provider_id
        for service in services
        if service.authentication == Service.Authentication.COMPANY
    }
    held: dict[int | None, list[SignIn]] = defaultdict(list)
    rows = CompanySignIn.objects.filter(identity_provider__in=set(named.values()))
    for row in rows.select_related("person").order_by("person__username") if named else ():
        state = (
            ConnectionState.CONNECTED
            if identities.can_open_services(row)
            else ConnectionState.CONNECT_AGAIN
        )
        held[row.identity_provider_id].append(
            SignIn(
                id=row.pk,
                person=row.person,
                since=row.connected_at,
                scopes=(),
                expires_at=row.expires_at,
                is_renewed=bool(row.refresh),
                state=state,
            )
        )
    return {pk: held[provider] for pk, provider in named.items()}


def _list_grant_sign_ins(services: list[Service]) -> defaultdict[int, list[SignIn]]:
    endpoints = {service.pk: service.endpoint for service in services}
    challenges = {
        (each.service_id, each.person_id, each.endpoint): each
        for each in OAuthChallenge.objects.filter(service__in=endpoints)
    }
    found: defaultdict[int, list[SignIn]] = defaultdict(list)
    grants = OAuthGrant.objects.filter(service__in=endpoints).select_related("person")
    for grant in grants.order_by("person__username"):
        if grant.endpoint == endpoints[grant.service_id]:
            challenge = challenges.get((grant.service_id, grant.person_id, grant.endpoint))
            found[grant.service_id].append(_build_sign_in(grant, challenge))
    return found


def _build_sign_in(grant: OAuthGrant, challenge: OAuthChallenge | None) -> SignIn:
    is_over = challenge is not None or not can_open_service(grant)
    return SignIn(
        id=grant.pk,
        person=grant.person,
        since=grant.connected_at,
        scopes=tuple(grant.scope.split()),
        expires_at=grant.expires_at,
        is_renewed=bool(grant.refresh),
        state=ConnectionState.CONNECT_AGAIN if is_over else ConnectionState.CONNECTED,
        wanted=tuple(challenge.scope.split()) if challenge else (),
    )


def revoke(service: Service, sign_in: int) -> SignIn | None:
    """End this sign-in, here and at its server. Return None if it is already gone."""
    ended = next((each for each in list_sign_ins(service) if each.id == sign_in), None)
    if ended is not None:
        delete_sign_in(service, ended.person.pk if ended.person else None)
    return ended


def list_registrations(service: Service) -> list[OAuthClient]:
    """Return the clients of this application at the service's authorization servers, newest
    first."""
    return list(service.oauth_clients.defer("secret"))


def forget_registration(service: Service, registration: int) -> OAuthClient | None:
    """Delete a dynamic registration with every sign-in that used it; the next sign-in registers
    again. An entered client is changed in the settings instead: its row says at which server the
    entered secret may be used."""
    mine = OAuthClient.objects.filter(service=service, kind=OAuthClient.Kind.REGISTERED)
    found = mine.filter(pk=registration).first()
    if found is not None:
        OAuthClient.objects.filter(pk=found.pk).delete()
    return found
