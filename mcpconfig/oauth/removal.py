"""Removal of grants (a person disconnects or is deleted, a service is removed or moves). Their
tokens are stored for revocation in the same transaction, and revoked after it has committed."""

from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from mcpconfig.models import (
    CompanySignIn,
    OAuthChallenge,
    OAuthClient,
    OAuthGrant,
    OAuthRevocation,
    Service,
)
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.lazy_module import LazyModule

from .grants.grants import get_holder_id

if TYPE_CHECKING:
    from . import revocation
else:
    revocation = LazyModule("mcpconfig.oauth.revocation")


def disconnect(service: Service, acting: Acting) -> None:
    """Delete this person's sign-in, or the shared one; the next operation needs another."""
    delete_sign_in(service, get_holder_id(service, acting))


def delete_sign_in(service: Service, person_id: int | None) -> None:
    """Delete a sign-in. A company sign-in ends for all its services, because the next use of any of
    them would restore this one."""
    mine = {"service": service, "person_id": person_id}
    with transaction.atomic():
        if service.authentication == Service.Authentication.COMPANY:
            CompanySignIn.objects.filter(
                identity_provider=service.identity_provider_id, person_id=person_id
            ).delete()
        OAuthGrant.objects.filter(**mine).delete()
        OAuthChallenge.objects.filter(**mine).delete()


@receiver(pre_delete, sender=OAuthGrant, dispatch_uid="revoke-when-deleted")
def store_revocation(instance: OAuthGrant, **_: Any) -> None:
    """Store what a revocation needs: the rows that hold it are about to be deleted."""
    client = instance.client
    if not instance.revocation_endpoint or client is None:
        return
    try:
        payload = _build_payload(instance, client)
    except OperationError:
        return  # the tokens cannot be decrypted, so they cannot be used from here
    service = instance.service
    OAuthRevocation.objects.create(
        revocation_endpoint=instance.revocation_endpoint,
        service_url=instance.endpoint,
        allows_private_addresses=service.allows_private_addresses and not service.is_personal,
        payload=oauth_secrets.encrypt_revocation(payload),
    )
    transaction.on_commit(_send_revocations, robust=True)


@receiver(pre_delete, sender=CompanySignIn, dispatch_uid="revoke-company-sign-in-when-deleted")
def store_company_revocation(instance: CompanySignIn, **_: Any) -> None:
    """Store the tokens of the identity provider for revocation."""
    provider = instance.identity_provider
    if not instance.revocation_endpoint or not instance.refresh:
        return
    try:
        payload = {
            "refresh_token": oauth_secrets.decrypt_identity(instance, "refresh"),
            "access_token": "",
            "client_id": provider.client_id,
            "method": instance.method,
            "secret": oauth_secrets.decrypt_provider_secret(provider),
            "issuer": instance.issuer,
        }
    except OperationError:
        return
    OAuthRevocation.objects.create(
        revocation_endpoint=instance.revocation_endpoint,
        service_url=instance.issuer,
        allows_private_addresses=provider.allows_private_addresses,
        payload=oauth_secrets.encrypt_revocation(payload),
    )
    transaction.on_commit(_send_revocations, robust=True)


def _send_revocations() -> None:
    async_to_sync(revocation.send_revocations)()


def _build_payload(grant: OAuthGrant, client: OAuthClient) -> dict[str, Any]:
    return {
        "refresh_token": oauth_secrets.decrypt_token(grant, "refresh"),
        "access_token": oauth_secrets.decrypt_token(grant, "access"),
        "client_id": client.client_id,
        "method": client.method,
        "secret": oauth_secrets.decrypt_client_secret(client),
        "issuer": grant.issuer,
    }
