"""Signing a person in at their company's identity provider (OpenID Connect), once for all services
that are opened that way. As with other sign-ins, two web requests: `begin` and `finish`."""

import hashlib

import httpx2
from channels.db import database_sync_to_async
from django.db import transaction
from django.utils import timezone
from mcp.shared.auth import OAuthMetadata

from mcpconfig.acting import Acting
from mcpconfig.models import CompanySignIn, IdentityProvider, OAuthAttempt, OAuthGrant, Service

from . import attempts, sealed
from .attempts import AuthorizationRequest, Returned, not_signed_in
from .company import at, client_at
from .discovery import described_by
from .document import company_redirect_uri
from .door import unusable, visiting
from .identities import renewed_from
from .identity import method_of
from .identity_tokens import IdToken, read_id_token
from .listeners import signed_in
from .scopes import OFFLINE
from .token_requests import Denied, meaning, request_body


async def begin(
    service: Service, acting: Acting, *, session_key: str, base_url: str
) -> AuthorizationRequest:
    """Prepare a sign-in at the identity provider, from this service, good for ten minutes."""
    providers = IdentityProvider.objects.filter(services=service)
    provider = await providers.afirst()
    if provider is None:
        raise unusable("The service has no identity provider.", "Choose one in its settings.")
    async with visiting(service, "begin_company_sign_in") as door:
        metadata = await described_by(at(door, provider), provider.issuer, provider.issuer)
    if metadata is None:
        raise unusable(f"{provider} does not say how one signs in.", "Check its issuer.")
    attempt = OAuthAttempt(
        service=service,
        person_id=acting.user_id,
        identity_provider=provider,
        redirect_uri=company_redirect_uri(provider, base_url),
        endpoint=service.endpoint,
        issuer=provider.issuer,
        token_endpoint=str(metadata.token_endpoint),
        revocation_endpoint=str(metadata.revocation_endpoint or ""),
        names_its_issuer=metadata.authorization_response_iss_parameter_supported is True,
    )
    return await database_sync_to_async(_prepare)(attempt, provider, metadata, session_key)


def _prepare(
    attempt: OAuthAttempt, provider: IdentityProvider, metadata: OAuthMetadata, session_key: str
) -> AuthorizationRequest:
    offered = metadata.scopes_supported or []
    scopes = ("openid", OFFLINE) if OFFLINE in offered else ("openid",)
    attempt.scope = " ".join(scopes)
    attempt.method = method_of(metadata, sealed.provider_secret_of(provider))
    begun = attempts.keep(attempt, session_key)
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": attempt.scope,
        "state": begun.state,
        "nonce": _nonce(begun.pkce.code_verifier),
        # Always sent and never asked for: many providers understand it and do not say so, and the
        # nonce ties the answer to this sign-in besides.
        "code_challenge": begun.pkce.code_challenge,
        "code_challenge_method": "S256",
    }
    if OFFLINE in scopes:
        query["prompt"] = "consent"
    endpoint = httpx2.URL(str(metadata.authorization_endpoint))
    return AuthorizationRequest(
        url=str(endpoint.copy_merge_params(query)),
        host=endpoint.netloc.decode("ascii"),
        company=str(provider),
    )


def _nonce(verifier: str) -> str:
    """From the verifier, which never travels with the browser."""
    return hashlib.sha256(f"nonce {verifier}".encode()).hexdigest()


async def finish(
    provider: IdentityProvider, acting: Acting, returned: Returned, *, session_key: str
) -> Service:
    """Store what was brought back, and return the service that the person began at. Raises an
    OperationError that says what to do."""
    mine = OAuthAttempt.objects.filter(identity_provider=provider, person_id=acting.user_id)
    attempt = await database_sync_to_async(attempts.claim)(mine, returned.state, session_key)
    attempts.check_issuer(attempt, returned.iss)
    if returned.error or not returned.code:
        raise not_signed_in(meaning(returned.error))
    verifier = sealed.verifier_of(attempt)
    form = {
        "grant_type": "authorization_code",
        "code": returned.code,
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": verifier,
    }
    client = await database_sync_to_async(client_at)(provider, attempt.method)
    try:
        async with visiting(attempt.service, "finish_company_sign_in") as door:
            body = await request_body(at(door, provider), attempt.token_endpoint, client, form)
    except Denied as denied:
        raise not_signed_in(meaning(denied.code)) from denied
    told = read_id_token(body.get("id_token"), provider, nonce=_nonce(verifier))
    refresh = str(body.get("refresh_token") or "")
    await database_sync_to_async(keep)(provider, attempt, told, refresh)
    async for service in Service.objects.filter(identity_provider=provider):
        await signed_in(service, acting.user_id)
    return attempt.service


@transaction.atomic
def keep(
    provider: IdentityProvider, attempt: OAuthAttempt, told: IdToken, refresh: str
) -> CompanySignIn:
    """The sign-in in place of an earlier one, whose grants stay if it was the same identity."""
    IdentityProvider.objects.select_for_update(no_key=True).get(pk=provider.pk)
    service = attempt.service
    Service.objects.filter(pk=service.pk).update(**service.forgotten_failure())
    owned = CompanySignIn.objects.filter(identity_provider=provider, person_id=attempt.person_id)
    owned.exclude(subject=told.subject, issuer=provider.issuer).delete()
    row = owned.first() or CompanySignIn(identity_provider=provider, person_id=attempt.person_id)
    row.issuer, row.subject, row.method = provider.issuer, told.subject, attempt.method
    row.token_endpoint = attempt.token_endpoint
    row.revocation_endpoint = attempt.revocation_endpoint
    sealed.seal_identity(row, "id_token", told.text)
    row.refresh = b""
    if refresh:
        sealed.seal_identity(row, "refresh", refresh)
    row.expires_at, row.renew_at = told.expires_at, renewed_from(told)
    row.version += 1
    row.lease, row.lease_until, row.is_dead = "", None, False
    row.connected_at = timezone.now()
    row.save()
    # What this service turned away, or wants since, is asked for anew.
    mine = OAuthGrant.objects.filter(service=service, company_sign_in=row)
    mine.update(renew_at=row.connected_at, expires_at=row.connected_at)
    return row
