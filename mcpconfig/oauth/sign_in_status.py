"""Whether a person is signed in to a service: nothing to do, not connected, connected, connect
again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Self

from django.db.models import Q
from django.utils.translation import gettext as _

from mcpconfig.models import CompanySignIn, OAuthChallenge, OAuthGrant, Service
from mcpconfig.values.acting import Acting

from .company import identities
from .grants import grants
from .grants.grants import get_grants, get_holder_id

Authentication = Service.Authentication
SIGNING_IN = (
    *(Authentication.OAUTH_USER, Authentication.OAUTH_SHARED),
    Authentication.COMPANY,
)


class ConnectionState(StrEnum):
    """`label` is shown on pages; the values are compared and printed as JSON."""

    READY = "ready"
    NOT_CONNECTED = "not connected"
    CONNECTED = "connected"
    CONNECT_AGAIN = "connect again"

    @property
    def label(self) -> str:
        match self:
            case ConnectionState.READY:
                return _("ready")
            case ConnectionState.NOT_CONNECTED:
                return _("not connected")
            case ConnectionState.CONNECTED:
                return _("connected")
            case ConnectionState.CONNECT_AGAIN:
                return _("needs reconnecting")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInStatus:
    """`is_shared`: one sign-in serves everybody. `wanted` are rights that the service has requested
    since and that the sign-in does not have; `company` is set if one sign-in serves several
    services."""

    state: ConnectionState
    is_shared: bool = False
    since: datetime | None = None
    scopes: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    company: str = ""

    @property
    def is_by_people(self) -> bool:
        return self.state != ConnectionState.READY

    @property
    def is_missing(self) -> bool:
        """Whether someone has to sign in before a call can run."""
        return self.state in (ConnectionState.NOT_CONNECTED, ConnectionState.CONNECT_AGAIN)


def get_sign_in_status(service: Service, acting: Acting) -> SignInStatus:
    """Return the stored status; no server is asked."""
    return get_sign_in_statuses([service], acting)[service.pk]


def get_sign_in_statuses(services: Iterable[Service], acting: Acting) -> dict[int, SignInStatus]:
    """Return the status for each of these services, by primary key, in as many queries as for
    one."""
    all_of_them = list(services)
    signing_in = [each for each in all_of_them if each.authentication in SIGNING_IN]
    stored = _StoredSignIns.about(signing_in, acting) if signing_in else _StoredSignIns()
    return {service.pk: _build_status(service, stored) for service in all_of_them}


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredSignIns:
    """The stored rows of a person and some services: by service, and sign-ins by identity
    provider."""

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
            grants=get_grants(services, acting),
            challenges={
                each.service_id: each
                for each in turned_away
                if each.person_id == get_holder_id(by_key[each.service_id], acting)
                and each.endpoint == by_key[each.service_id].endpoint
            },
            sign_ins={each.identity_provider_id: each for each in sign_ins} if companies else {},
        )


def _build_status(service: Service, stored: _StoredSignIns) -> SignInStatus:
    if service.authentication == Authentication.COMPANY:
        return _build_company_status(service, stored)
    if service.authentication not in SIGNING_IN:
        return SignInStatus(state=ConnectionState.READY)
    is_shared = service.authentication == Authentication.OAUTH_SHARED
    grant, challenge = stored.grants.get(service.pk), stored.challenges.get(service.pk)
    if grant is None:
        return SignInStatus(state=ConnectionState.NOT_CONNECTED, is_shared=is_shared)
    return SignInStatus(
        state=ConnectionState.CONNECT_AGAIN
        if challenge or not can_open_service(grant)
        else ConnectionState.CONNECTED,
        is_shared=is_shared,
        since=grant.connected_at,
        scopes=tuple(grant.scope.split()),
        wanted=tuple(challenge.scope.split()) if challenge else (),
    )


def _build_company_status(service: Service, stored: _StoredSignIns) -> SignInStatus:
    """A company sign-in opens the service also before it was used for it. A refused token is
    requested again without the person; for further rights the person signs in again."""
    signed_in = stored.sign_ins.get(service.identity_provider_id or 0)
    if signed_in is None:
        return SignInStatus(
            state=ConnectionState.NOT_CONNECTED, company=str(service.identity_provider)
        )
    grant, wider = stored.grants.get(service.pk), stored.challenges.get(service.pk)
    if wider is not None and not wider.is_step_up:
        wider = None
    is_open = identities.can_open_services(signed_in) or (
        grant is not None and grants.is_usable(grant)
    )
    return SignInStatus(
        state=ConnectionState.CONNECTED if is_open and not wider else ConnectionState.CONNECT_AGAIN,
        since=signed_in.connected_at,
        scopes=tuple(grant.scope.split()) if grant else (),
        wanted=tuple(wider.scope.split()) if wider else (),
        company=str(service.identity_provider),
    )


def can_open_service(grant: OAuthGrant) -> bool:
    """Whether it opens the service now, or after a renewal without a person."""
    return not grant.is_dead and (grants.is_usable(grant) or bool(grant.refresh))
