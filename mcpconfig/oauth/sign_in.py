"""Sign-in of a person to a service, in two web requests that different processes may serve: `begin`
sends the person to the authorization server, `finish` handles the answer."""

from dataclasses import dataclass

import httpx2
from channels.db import database_sync_to_async
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from mcp.shared.auth import OAuthToken

from mcpconfig.models import OAuthAttempt, OAuthChallenge, OAuthClient, OAuthGrant, Service
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.challenge import Challenge
from mcpconfig.values.hooks import announce_sign_in

from .company.sign_in import begin as begin_at_company
from .grants import attempts, grants
from .grants.attempts import AuthorizationRequest, CallbackParameters, unfinished_sign_in_error
from .grants.grants import get_grant, get_holder_id
from .servers.client_metadata import build_redirect_uri
from .servers.client_registration import get_client, list_known_issuers, load_client
from .servers.discovery import Authority, discover, get_challenge, require_pkce
from .servers.http import open_oauth_http, sign_in_setup_error
from .servers.scopes import choose_scope
from .servers.token_requests import TokenDenied, describe_error_code, request_token

__all__ = ["AuthorizationRequest", "CallbackParameters", "begin", "finish"]

Authentication = Service.Authentication


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The decisions of one sign-in before the person leaves."""

    authority: Authority
    client: OAuthClient
    scope: str
    challenge: Challenge


async def begin(
    service: Service, acting: Acting, *, session_key: str, base_url: str
) -> AuthorizationRequest:
    """Prepare a sign-in for this person in this browser session. It is valid for ten minutes.

    `base_url` is the URL of this application for people. Raises an OperationError if the service
    offers no safe way to sign in.
    """
    if service.authentication == Authentication.COMPANY:
        return await begin_at_company(service, acting, session_key=session_key, base_url=base_url)
    if service.authentication not in (Authentication.OAUTH_USER, Authentication.OAUTH_SHARED):
        raise sign_in_setup_error(
            _("This service needs no sign-in."),
            _("See the service’s settings for how it is opened."),
        )
    async with open_oauth_http(service, "begin_sign_in") as http:
        challenge = await get_challenge(http, service, get_holder_id(service, acting))
        authority = await discover(http, challenge, await list_known_issuers(service))
        require_pkce(authority)
        grant = await database_sync_to_async(get_grant)(service, acting)
        scope = choose_scope(service, challenge, authority, grant)
        redirect = build_redirect_uri(service, base_url)
        client = await get_client(http, service, authority, redirect=redirect, scope=scope)
        plan = _Plan(authority=authority, client=client, scope=scope, challenge=challenge)
    return await database_sync_to_async(_prepare)(service, acting, session_key, plan)


def _prepare(
    service: Service, acting: Acting, session_key: str, plan: _Plan
) -> AuthorizationRequest:
    metadata = plan.authority.metadata
    attempt = OAuthAttempt(
        service=service,
        person_id=acting.user_id,
        client=plan.client,
        is_shared=service.authentication == Authentication.OAUTH_SHARED,
        is_step_up=plan.challenge.is_step_up,
        endpoint=service.endpoint,
        issuer=plan.authority.issuer,
        resource=plan.authority.resource,
        scope=plan.scope,
        token_endpoint=str(metadata.token_endpoint),
        revocation_endpoint=str(metadata.revocation_endpoint or ""),
        names_its_issuer=metadata.authorization_response_iss_parameter_supported is True,
    )
    begun = attempts.store_attempt(attempt, session_key)
    return _build_request(plan, begun.state, begun.pkce.code_challenge)


def _build_request(plan: _Plan, state: str, code_challenge: str) -> AuthorizationRequest:
    query = {
        "response_type": "code",
        "client_id": plan.client.client_id,
        "redirect_uri": plan.client.redirect_uri,
        "state": state,
        "code_challenge": code_challenge,
        "code_challenge_method": "S256",
        "resource": plan.authority.resource,
    }
    scopes = tuple(plan.scope.split())
    if scopes:
        query["scope"] = plan.scope
    if "offline_access" in scopes:
        query["prompt"] = "consent"
    endpoint = httpx2.URL(str(plan.authority.metadata.authorization_endpoint))
    return AuthorizationRequest(
        url=str(endpoint.copy_merge_params(query)),
        host=endpoint.netloc.decode("ascii"),
        scopes=scopes,
        is_step_up=plan.challenge.is_step_up,
    )


async def finish(
    service: Service, acting: Acting, returned: CallbackParameters, *, session_key: str
) -> OAuthGrant:
    """Return the grant, or raise an OperationError that says what to do. No parameter is used or
    shown before state, person, session and issuer have been checked."""
    mine = OAuthAttempt.objects.filter(service=service, person_id=acting.user_id)
    claim = database_sync_to_async(attempts.claim)
    attempt = await claim(mine.exclude(client=None), returned.state, session_key)
    attempts.check_issuer(attempt, returned.iss)
    if attempt.client is None or returned.error or not returned.code:
        raise unfinished_sign_in_error(describe_error_code(returned.error))
    client = await load_client(attempt.client)
    form = {
        "grant_type": "authorization_code",
        "code": returned.code,
        "redirect_uri": attempt.client.redirect_uri,
        "code_verifier": oauth_secrets.decrypt_verifier(attempt),
        "resource": attempt.resource,
    }
    try:
        async with open_oauth_http(service, "finish_sign_in") as http:
            token = await request_token(http, attempt.token_endpoint, client, form)
    except TokenDenied as denied:
        raise unfinished_sign_in_error(describe_error_code(denied.code)) from denied
    grant = await database_sync_to_async(_store)(service, attempt, token)
    await announce_sign_in(service, grant.person_id)
    return grant


@transaction.atomic
def _store(service: Service, attempt: OAuthAttempt, token: OAuthToken) -> OAuthGrant:
    """Store the grant of this sign-in, in place of an earlier one."""
    person_id = None if attempt.is_shared else attempt.person_id
    # The service's row lock keeps two sign-ins at once from both making a grant.
    locked = Service.objects.select_for_update(no_key=True).get(pk=service.pk)
    # The service may have failed only because nobody was signed in, and nothing else would retry
    # it.
    Service.objects.filter(pk=service.pk).update(**locked.forgotten_failure())
    owned = OAuthGrant.objects.filter(service=service, person_id=person_id)
    earlier = owned.first()
    grant = earlier or OAuthGrant(service=service, person_id=person_id)
    was_step_up = earlier is not None and attempt.is_step_up
    grant.client, grant.company_sign_in = attempt.client, None
    grant.endpoint, grant.issuer = attempt.endpoint, attempt.issuer
    grant.resource, grant.wanted_scope = attempt.resource, attempt.scope
    grant.token_endpoint = attempt.token_endpoint
    grant.revocation_endpoint = attempt.revocation_endpoint
    grant.access, grant.refresh, grant.scope = b"", b"", attempt.scope
    grants.set_token(grant, token)
    grant.version += 1
    grant.lease, grant.lease_until = "", None
    grant.step_ups = grant.step_ups + 1 if was_step_up else 0
    grant.connected_at = timezone.now()
    grant.save()
    OAuthChallenge.objects.filter(service=service, person_id=person_id).delete()
    return grant
