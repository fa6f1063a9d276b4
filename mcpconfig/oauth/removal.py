"""When a grant goes (a person disconnects or is deleted, a service is removed or moves), its tokens
are noted for revocation in the same transaction, and revoked once that has committed."""

from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import (
    CompanySignIn,
    OAuthChallenge,
    OAuthClient,
    OAuthGrant,
    OAuthRevocation,
    Service,
)
from mcpconfig.on_first_use import OnFirstUse

from . import sealed
from .grants import holder

if TYPE_CHECKING:
    from . import revocation
else:
    revocation = OnFirstUse("mcpconfig.oauth.revocation")


def disconnect(service: Service, acting: Acting) -> None:
    """Forget this person's sign-in, or the one for everybody; the next operation needs another."""
    forget(service, holder(service, acting))


def forget(service: Service, person_id: int | None) -> None:
    """As `disconnect`, for anybody's sign-in. A company sign-in ends for all its services: the next
    use of any would bring this one back otherwise."""
    mine = {"service": service, "person_id": person_id}
    with transaction.atomic():
        if service.authentication == Service.Authentication.COMPANY:
            CompanySignIn.objects.filter(
                identity_provider=service.identity_provider_id, person_id=person_id
            ).delete()
        OAuthGrant.objects.filter(**mine).delete()
        OAuthChallenge.objects.filter(**mine).delete()


@receiver(pre_delete, sender=OAuthGrant, dispatch_uid="revoke-when-deleted")
def note(instance: OAuthGrant, **_: Any) -> None:
    """Keep what revoking takes: the rows that hold it now are about to go."""
    client = instance.client
    if not instance.revocation_endpoint or client is None:
        return
    try:
        payload = _payload(instance, client)
    except OperationError:
        return  # no key opens the tokens, so nobody can use them from here either
    service = instance.service
    OAuthRevocation.objects.create(
        revocation_endpoint=instance.revocation_endpoint,
        service_url=instance.endpoint,
        allows_private_addresses=service.allows_private_addresses and not service.is_personal,
        payload=sealed.seal_revocation(payload),
    )
    transaction.on_commit(_revoke_noted, robust=True)


@receiver(pre_delete, sender=CompanySignIn, dispatch_uid="revoke-company-sign-in-when-deleted")
def note_company_sign_in(instance: CompanySignIn, **_: Any) -> None:
    """As `note`, for what the identity provider gave."""
    provider = instance.identity_provider
    if not instance.revocation_endpoint or not instance.refresh:
        return
    try:
        payload = {
            "refresh_token": sealed.identity_of(instance, "refresh"),
            "access_token": "",
            "client_id": provider.client_id,
            "method": instance.method,
            "secret": sealed.provider_secret_of(provider),
            "issuer": instance.issuer,
        }
    except OperationError:
        return
    OAuthRevocation.objects.create(
        revocation_endpoint=instance.revocation_endpoint,
        service_url=instance.issuer,
        allows_private_addresses=provider.allows_private_addresses,
        payload=sealed.seal_revocation(payload),
    )
    transaction.on_commit(_revoke_noted, robust=True)


def _revoke_noted() -> None:
    async_to_sync(revocation.revoke_noted)()


def _payload(grant: OAuthGrant, client: OAuthClient) -> dict[str, Any]:
    return {
        "refresh_token": sealed.token_of(grant, "refresh"),
        "access_token": sealed.token_of(grant, "access"),
        "client_id": client.client_id,
        "method": client.method,
        "secret": sealed.client_secret_of(client),
        "issuer": grant.issuer,
    }
