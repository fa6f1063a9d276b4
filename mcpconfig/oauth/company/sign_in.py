"""Sign-in of a person at their company's identity provider (OpenID Connect), once for all services
that use it. As with other sign-ins, two web requests: `begin` and `finish`."""

import hashlib

import httpx2
from channels.db import database_sync_to_async
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from mcp.shared.auth import OAuthMetadata

from mcpconfig.models import CompanySignIn, IdentityProvider, OAuthAttempt, OAuthGrant, Service
from mcpconfig.oauth.grants import attempts
from mcpconfig.oauth.grants.attempts import (
    AuthorizationRequest,
    CallbackParameters,
    unfinished_sign_in_error,
)
from mcpconfig.oauth.servers.client_metadata import build_company_redirect_uri
from mcpconfig.oauth.servers.client_registration import choose_auth_method
from mcpconfig.oauth.servers.discovery import fetch_server_metadata
from mcpconfig.oauth.servers.http import open_oauth_http, sign_in_setup_error
from mcpconfig.oauth.servers.scopes import OFFLINE
from mcpconfig.oauth.servers.token_requests import TokenDenied, describe_error_code, request_body
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.hooks import announce_sign_in

from .exchange import build_provider_client, use_provider
from .identities import compute_renewal_time
from .identity_tokens import IdToken, parse_id_token


async def begin(
    service: Service, acting: Acting, *, session_key: str, base_url: str
) -> AuthorizationRequest:
    """Prepare a sign-in at the identity provider of this service. It is valid for ten minutes."""
    providers = IdentityProvider.objects.filter(services=service)
    provider = await providers.afirst()
    if provider is None:
        raise sign_in_setup_error(
            _("The service has no identity provider."), _("Choose one in its settings.")
        )
    async with open_oauth_http(service, "begin_company_sign_in") as http:
        metadata = await fetch_server_metadata(
            use_provider(http, provider), provider.issuer, provider.issuer
        )
    if metadata is None:
        raise sign_in_setup_error(
            _("%(provider)s does not say how to sign in.") % {"provider": provider},
            _("Check its issuer."),
        )
    attempt = OAuthAttempt(
        service=service,
        person_id=acting.user_id,
        identity_provider=provider,
        redirect_uri=build_company_redirect_uri(provider, base_url),
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
    attempt.method = choose_auth_method(metadata, oauth_secrets.decrypt_provider_secret(provider))
    begun = attempts.store_attempt(attempt, session_key)
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": attempt.scope,
        "state": begun.state,
        "nonce": _derive_nonce(begun.pkce.code_verifier),
        # Always sent and never required: many providers support PKCE without announcing it, and the
        # nonce also ties the answer to this sign-in.
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


def _derive_nonce(verifier: str) -> str:
    """Derive the nonce from the verifier, which never reaches the browser."""
    return hashlib.sha256(f"nonce {verifier}".encode()).hexdigest()


async def finish(
    provider: IdentityProvider, acting: Acting, returned: CallbackParameters, *, session_key: str
) -> Service:
    """Store the sign-in, and return the service from which the person began. Raises an
    OperationError that says what to do."""
    mine = OAuthAttempt.objects.filter(identity_provider=provider, person_id=acting.user_id)
    attempt = await database_sync_to_async(attempts.claim)(mine, returned.state, session_key)
    attempts.check_issuer(attempt, returned.iss)
    if returned.error or not returned.code:
        raise unfinished_sign_in_error(describe_error_code(returned.error))
    verifier = oauth_secrets.decrypt_verifier(attempt)
    form = {
        "grant_type": "authorization_code",
        "code": returned.code,
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": verifier,
    }
    client = await database_sync_to_async(build_provider_client)(provider, attempt.method)
    try:
        async with open_oauth_http(attempt.service, "finish_company_sign_in") as http:
            body = await request_body(
                use_provider(http, provider), attempt.token_endpoint, client, form
            )
    except TokenDenied as denied:
        raise unfinished_sign_in_error(describe_error_code(denied.code)) from denied
    id_token = parse_id_token(body.get("id_token"), provider, nonce=_derive_nonce(verifier))
    refresh = str(body.get("refresh_token") or "")
    await database_sync_to_async(store_sign_in)(provider, attempt, id_token, refresh)
    async for service in Service.objects.filter(identity_provider=provider):
        await announce_sign_in(service, acting.user_id)
    return attempt.service


@transaction.atomic
def store_sign_in(
    provider: IdentityProvider, attempt: OAuthAttempt, id_token: IdToken, refresh: str
) -> CompanySignIn:
    """Store the sign-in in place of an earlier one, whose grants stay if it was the same
    identity."""
    IdentityProvider.objects.select_for_update(no_key=True).get(pk=provider.pk)
    service = attempt.service
    Service.objects.filter(pk=service.pk).update(**service.forgotten_failure())
    owned = CompanySignIn.objects.filter(identity_provider=provider, person_id=attempt.person_id)
    owned.exclude(subject=id_token.subject, issuer=provider.issuer).delete()
    row = owned.first() or CompanySignIn(identity_provider=provider, person_id=attempt.person_id)
    row.issuer, row.subject, row.method = provider.issuer, id_token.subject, attempt.method
    row.token_endpoint = attempt.token_endpoint
    row.revocation_endpoint = attempt.revocation_endpoint
    oauth_secrets.encrypt_identity(row, "id_token", id_token.text)
    row.refresh = b""
    if refresh:
        oauth_secrets.encrypt_identity(row, "refresh", refresh)
    row.expires_at, row.renew_at = id_token.expires_at, compute_renewal_time(id_token)
    row.version += 1
    row.lease, row.lease_until, row.is_dead = "", None, False
    row.connected_at = timezone.now()
    row.save()
    # What this service refused or requires since then is requested again.
    mine = OAuthGrant.objects.filter(service=service, company_sign_in=row)
    mine.update(renew_at=row.connected_at, expires_at=row.connected_at)
    return row
