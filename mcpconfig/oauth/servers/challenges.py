"""The challenges of services that refuse a request, stored for the next sign-in."""

from collections.abc import Iterable
from datetime import timedelta

from channels.db import database_sync_to_async
from django.utils import timezone
from django.utils.translation import gettext as _

from mcpconfig.models import OAuthChallenge, OAuthGrant, Service
from mcpconfig.oauth.grants.grants import get_grant, get_holder_id
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.challenge import Challenge
from mcpconfig.values.errors import OperationError

MAX_STEP_UPS = 2
STEP_UPS_FORGOTTEN_AFTER = timedelta(hours=1)


async def record_challenge(
    service: Service, acting: Acting | None, header_values: Iterable[str], *, token: str = ""
) -> OperationError:
    """Store the challenge of a refused request, and return the failure of the operation: a sign-in
    is needed, or access is forbidden if another sign-in would change nothing. `token` is the one
    that was sent; if it is still in use, it is renewed before its next use."""
    challenge = Challenge.read(header_values)
    return await database_sync_to_async(_store_challenge)(service, acting, challenge, token)


def _store_challenge(
    service: Service, acting: Acting | None, challenge: Challenge, token: str
) -> OperationError:
    grant = get_grant(service, acting)
    if challenge.is_step_up and grant is not None and _is_futile(grant, challenge):
        return _forbidden_error(service)
    OAuthChallenge.objects.update_or_create(
        service=service,
        person_id=get_holder_id(service, acting),
        defaults={
            "endpoint": service.endpoint,
            "resource_metadata": challenge.resource_metadata,
            "scope": challenge.scope,
            "is_step_up": challenge.is_step_up,
        },
    )
    if grant is not None and not challenge.is_step_up:
        _expire_token(grant, token)
    return more_rights_error(service) if challenge.is_step_up else sign_in_needed_error(service)


def _is_futile(grant: OAuthGrant, challenge: Challenge) -> bool:
    """Whether the person was already asked for these rights, or was asked too often."""
    if set(challenge.scope.split()) <= set(grant.wanted_scope.split()):
        return True
    connected_at = grant.connected_at
    is_lately = (
        connected_at is not None and timezone.now() - connected_at < STEP_UPS_FORGOTTEN_AFTER
    )
    return is_lately and grant.step_ups >= MAX_STEP_UPS


def _expire_token(grant: OAuthGrant, token: str) -> None:
    """The service does not accept this token: the next operation renews it first, and asks for a
    sign-in if it cannot be renewed. A newer token may still be valid."""
    if not token or token != oauth_secrets.decrypt_token(grant, "access"):
        return
    now = timezone.now()
    OAuthGrant.objects.filter(pk=grant.pk, version=grant.version).update(
        renew_at=now, expires_at=now
    )


def get_latest_challenge(service: Service, person_id: int | None) -> Challenge | None:
    """Return this person's latest challenge, or that of an admin's test if there is none."""
    seen = OAuthChallenge.objects.filter(service=service, endpoint=service.endpoint)
    found = (
        seen.filter(person_id=person_id).order_by("-seen_at").first()
        or seen.filter(person=None).order_by("-seen_at").first()
    )
    if found is None:
        return None
    return Challenge(
        resource_metadata=found.resource_metadata, scope=found.scope, is_step_up=found.is_step_up
    )


def sign_in_needed_error(service: Service) -> OperationError:
    return OperationError(
        kind="sign_in_needed",
        message=_("%(service)s requires sign-in.") % {"service": service},
        hint=_("Connect to it under Connected services."),
    )


def more_rights_error(service: Service) -> OperationError:
    return OperationError(
        kind="sign_in_needed",
        message=_("%(service)s requires a sign-in with more rights for this.")
        % {"service": service},
        hint=_("Connect to it again under Connected services. It then asks for these rights."),
    )


def _forbidden_error(service: Service) -> OperationError:
    return OperationError(
        kind="forbidden",
        message=(
            _("%(service)s refuses this, although the sign-in asked for the rights that it named.")
            % {"service": service}
        ),
        hint=_("Ask its operator for access."),
    )
