"""Sign-ins and client registrations as admins see and end them. Contains no token."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from mcpconfig.models import CompanySignIn, OAuthChallenge, OAuthClient, OAuthGrant, Service
from mcpconfig.values.hooks import current_hooks

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInCount:
    """How many sign-ins a service has, and how many of them only another sign-in helps."""

    total: int = 0
    ended: int = 0


def list_sign_ins(service: Service) -> list[SignIn]:
    """Return all stored sign-ins to this service; no server is asked."""
    return build_sign_ins(service, filter_sign_ins(service))


def filter_sign_ins(service: Service) -> QuerySet[Any]:
    """Return the rows of the sign-ins to this service, by member. Those at its identity provider
    count whether or not the service was used since."""
    rows: QuerySet[Any]
    if service.authentication == Service.Authentication.COMPANY:
        rows = CompanySignIn.objects.filter(identity_provider=service.identity_provider_id)
    else:
        rows = OAuthGrant.objects.filter(service=service, endpoint=service.endpoint)
    return rows.select_related("person").order_by("person__username", "pk")


def build_sign_ins(service: Service, rows: Iterable[Any]) -> list[SignIn]:
    """Return the sign-ins of these rows of the service, in at most one more statement."""
    if service.authentication == Service.Authentication.COMPANY:
        return [_build_company_sign_in(row) for row in rows]
    grants = list(rows)
    mine = Q(person=None) | Q(person__in=[grant.person_id for grant in grants])
    about = OAuthChallenge.objects.filter(mine, service=service, endpoint=service.endpoint)
    challenges = {each.person_id: each for each in about} if grants else {}
    return [_build_sign_in(grant, challenges.get(grant.person_id)) for grant in grants]


def count_sign_ins(services: Iterable[Service]) -> dict[int, SignInCount]:
    """Count the sign-ins to each of these services, in at most two statements. A service without
    any is left out."""
    services = list(services)
    return _count_grants(services) | _count_company_sign_ins(services)


def _count_grants(services: list[Service]) -> dict[int, SignInCount]:
    endpoints = {service.pk: service.endpoint for service in services}
    about = OAuthChallenge.objects.filter(
        service=OuterRef("service"), endpoint=OuterRef("endpoint")
    )
    is_challenged = Exists(about.filter(person=OuterRef("person"))) | (
        Q(person=None) & Exists(about.filter(person=None))
    )
    now = timezone.now()
    is_expired = Q(access=b"") | Q(expires_at__lte=now)
    is_over = Q(is_challenged=True) | Q(is_dead=True) | (is_expired & Q(refresh=b""))
    rows = (
        OAuthGrant.objects.filter(service__in=endpoints)
        .annotate(is_challenged=is_challenged)
        .order_by()
        .values("service_id", "endpoint")
        .annotate(total=Count("pk"), ended=Count("pk", filter=is_over))
    )
    return {
        row["service_id"]: SignInCount(total=row["total"], ended=row["ended"])
        for row in rows
        if row["endpoint"] == endpoints[row["service_id"]]
    }


def _count_company_sign_ins(services: list[Service]) -> dict[int, SignInCount]:
    providers = {
        service.pk: service.identity_provider_id
        for service in services
        if service.authentication == Service.Authentication.COMPANY
    }
    if not providers:
        return {}
    is_over = Q(is_dead=True) | Q(expires_at__lte=timezone.now(), refresh=b"")
    rows = (
        CompanySignIn.objects.filter(identity_provider__in=set(providers.values()))
        .order_by()
        .values("identity_provider_id")
        .annotate(total=Count("pk"), ended=Count("pk", filter=is_over))
    )
    counts: dict[int | None, SignInCount] = {
        row["identity_provider_id"]: SignInCount(total=row["total"], ended=row["ended"])
        for row in rows
    }
    # The grants of such a service are made from these sign-ins.
    return {pk: counts.get(provider, SignInCount()) for pk, provider in providers.items()}


def _build_company_sign_in(row: CompanySignIn) -> SignIn:
    can_open = identities.can_open_services(row)
    return SignIn(
        id=row.pk,
        person=row.person,
        since=row.connected_at,
        scopes=(),
        expires_at=row.expires_at,
        is_renewed=bool(row.refresh),
        state=ConnectionState.CONNECTED if can_open else ConnectionState.CONNECT_AGAIN,
    )


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
    for ended in build_sign_ins(service, filter_sign_ins(service).filter(pk=sign_in)):
        delete_sign_in(service, ended.person.pk if ended.person else None)
        return ended
    return None


def list_registrations(service: Service) -> list[OAuthClient]:
    """Return the clients of this application at the service's authorization servers, newest
    first."""
    return list(service.oauth_clients.defer("secret"))


def forget_registration(service: Service, registration: int) -> OAuthClient | None:
    """Delete a dynamic registration with every sign-in that used it; the next sign-in registers
    again. An entered client is changed in the settings instead: its row says at which server the
    entered secret may be used."""
    mine = OAuthClient.objects.filter(service=service, kind=OAuthClient.Kind.REGISTERED)
    found = mine.select_related("service").filter(pk=registration).first()
    if found is None:
        return None
    with transaction.atomic():
        deleted, _rows = OAuthClient.objects.filter(pk=found.pk).delete()
        if deleted:
            current_hooks().log_forgotten_registration(found)
    return found
