"""Where a person stands with a service: nothing to do, to connect, connected, to connect again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Self

from django.db.models import Q

from mcpconfig.acting import Acting
from mcpconfig.models import CompanySignIn, OAuthChallenge, OAuthGrant, Service

from . import grants, identities
from .grants import grants_of, holder

Authentication = Service.Authentication
SIGNING_IN = (
    *(Authentication.OAUTH_USER, Authentication.OAUTH_SHARED),
    Authentication.COMPANY,
)


class State(StrEnum):
    """In words that a page can show."""

    READY = "ready"
    NOT_CONNECTED = "not connected"
    CONNECTED = "connected"
    CONNECT_AGAIN = "connect again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`is_shared`: one sign-in serves everybody. `wanted` are rights that the service named since
    and that the sign-in does not have; `company` is where one sign-in serves several services."""

    state: State
    is_shared: bool = False
    since: datetime | None = None
    scopes: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    company: str = ""

    @property
    def is_by_people(self) -> bool:
        return self.state != State.READY


def standing(service: Service, acting: Acting) -> Standing:
    """As it is stored; nobody is asked."""
    return standings([service], acting)[service.pk]


def standings(services: Iterable[Service], acting: Acting) -> dict[int, Standing]:
    """With each of these services, by its key, in as many statements as with one."""
    all_of_them = list(services)
    signing_in = [each for each in all_of_them if each.authentication in SIGNING_IN]
    stored = _Stored.about(signing_in, acting) if signing_in else _Stored()
    return {service.pk: _standing(service, stored) for service in all_of_them}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """What is known of a person and some services: by service, and sign-ins by company."""

    grants: Mapping[int, OAuthGrant] = field(default_factory=dict)
    challenges: Mapping[int, OAuthChallenge] = field(default_factory=dict)
    sign_ins: Mapping[int, CompanySignIn] = field(default_factory=dict)

    @classmethod
    def about(cls, services: list[Service], acting: Acting) -> Self:
        by_key = {service.pk: service for service in services}
        companies = {each.identity_provider_id for each in services} - {None}
        sign_ins = CompanySignIn.objects.filter(
            person_id=acting.user_id, identity_provider__in=companies
        )
        turned_away = OAuthChallenge.objects.filter(
            Q(person=None) | Q(person=acting.user_id), service__in=services
        ).order_by("is_step_up", "-pk")  # of several the last one stays, which asks for more
        return cls(
            grants=grants_of(services, acting),
            challenges={
                each.service_id: each
                for each in turned_away
                if each.person_id == holder(by_key[each.service_id], acting)
                and each.endpoint == by_key[each.service_id].endpoint
            },
            sign_ins={each.identity_provider_id: each for each in sign_ins} if companies else {},
        )


def _standing(service: Service, stored: _Stored) -> Standing:
    if service.authentication == Authentication.COMPANY:
        return _by_company(service, stored)
    if service.authentication not in SIGNING_IN:
        return Standing(state=State.READY)
    is_shared = service.authentication == Authentication.OAUTH_SHARED
    grant, challenge = stored.grants.get(service.pk), stored.challenges.get(service.pk)
    if grant is None:
        return Standing(state=State.NOT_CONNECTED, is_shared=is_shared)
    return Standing(
        state=State.CONNECT_AGAIN if challenge or not holds(grant) else State.CONNECTED,
        is_shared=is_shared,
        since=grant.connected_at,
        scopes=tuple(grant.scope.split()),
        wanted=tuple(challenge.scope.split()) if challenge else (),
    )


def _by_company(service: Service, stored: _Stored) -> Standing:
    """A sign-in opens the service also before it was used for it. What the service turned away is
    asked for anew without anybody; for further rights a person goes there once more."""
    signed_in = stored.sign_ins.get(service.identity_provider_id or 0)
    if signed_in is None:
        return Standing(state=State.NOT_CONNECTED, company=str(service.identity_provider))
    grant, wider = stored.grants.get(service.pk), stored.challenges.get(service.pk)
    if wider is not None and not wider.is_step_up:
        wider = None
    is_open = identities.holds(signed_in) or (grant is not None and grants.is_usable(grant))
    return Standing(
        state=State.CONNECTED if is_open and not wider else State.CONNECT_AGAIN,
        since=signed_in.connected_at,
        scopes=tuple(grant.scope.split()) if grant else (),
        wanted=tuple(wider.scope.split()) if wider else (),
        company=str(service.identity_provider),
    )


def holds(grant: OAuthGrant) -> bool:
    """Whether it opens the service now, or after a renewal that needs nobody."""
    return not grant.is_dead and (grants.is_usable(grant) or bool(grant.refresh))
