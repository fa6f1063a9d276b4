"""Who is signed in to a service, as admins see it, and ending a sign-in. Never a token."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mcpconfig.models import CompanySignIn, OAuthChallenge, OAuthClient, OAuthGrant, Service

from . import identities
from .removal import forget
from .standing import State, holds


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """One grant. `person` is None where one sign-in serves everybody; `wanted` are rights that the
    service named since and that the sign-in does not have."""

    id: int
    person: Any | None
    since: datetime | None
    scopes: tuple[str, ...]
    expires_at: datetime | None
    is_renewed: bool
    state: State
    wanted: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing but another sign-in helps."""
        return self.state == State.CONNECT_AGAIN


def sign_ins(service: Service) -> list[SignIn]:
    """All sign-ins to this service, as they are stored; nobody is asked."""
    return sign_ins_by_service([service])[service.pk]


def sign_ins_by_service(services: Iterable[Service]) -> defaultdict[int, list[SignIn]]:
    """As `sign_ins`, for many services in three queries."""
    services = list(services)
    found = _by_grants(services)
    found.update(_by_company(services))
    return found


def _by_company(services: list[Service]) -> dict[int, list[SignIn]]:
    """Who is signed in at the identity provider, whether or not the service was used since."""
    named = {
        service.pk: service.identity_provider_id
        for service in services
        if service.authentication == Service.Authentication.COMPANY
    }
    held: dict[int | None, list[SignIn]] = defaultdict(list)
    rows = CompanySignIn.objects.filter(identity_provider__in=set(named.values()))
    for row in rows.select_related("person").order_by("person__username") if named else ():
        state = State.CONNECTED if identities.holds(row) else State.CONNECT_AGAIN
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


def _by_grants(services: list[Service]) -> defaultdict[int, list[SignIn]]:
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
            found[grant.service_id].append(_sign_in(grant, challenge))
    return found


def _sign_in(grant: OAuthGrant, challenge: OAuthChallenge | None) -> SignIn:
    is_over = challenge is not None or not holds(grant)
    return SignIn(
        id=grant.pk,
        person=grant.person,
        since=grant.connected_at,
        scopes=tuple(grant.scope.split()),
        expires_at=grant.expires_at,
        is_renewed=bool(grant.refresh),
        state=State.CONNECT_AGAIN if is_over else State.CONNECTED,
        wanted=tuple(challenge.scope.split()) if challenge else (),
    )


def revoke(service: Service, sign_in: int) -> SignIn | None:
    """End this sign-in to the service, here and where it came from. None: it is gone already."""
    ended = next((each for each in sign_ins(service) if each.id == sign_in), None)
    if ended is not None:
        forget(service, ended.person.pk if ended.person else None)
    return ended


def registrations(service: Service) -> list[OAuthClient]:
    """What this application is called at the service's authorization servers, newest first."""
    return list(service.oauth_clients.defer("secret"))


def forget_registration(service: Service, registration: int) -> OAuthClient | None:
    """Drop a registration that this application made by itself, with every sign-in that came of it;
    the next one registers anew. What an admin entered is changed in the settings instead: its row
    says at which server the entered secret may be used."""
    mine = OAuthClient.objects.filter(service=service, kind=OAuthClient.Kind.REGISTERED)
    found = mine.filter(pk=registration).first()
    if found is not None:
        OAuthClient.objects.filter(pk=found.pk).delete()
    return found
