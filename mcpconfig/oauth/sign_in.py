"""Signing a person in to a service, in two web requests that different processes may serve: `begin`
sends them to the authorization server, `finish` takes what they bring back."""

from dataclasses import dataclass

import httpx2
from channels.db import database_sync_to_async
from django.db import transaction
from django.utils import timezone
from mcp.shared.auth import OAuthToken

from mcpconfig.acting import Acting
from mcpconfig.models import OAuthAttempt, OAuthChallenge, OAuthClient, OAuthGrant, Service

from . import attempts, grants, sealed
from .attempts import AuthorizationRequest, Returned, not_signed_in
from .challenges import Challenge
from .company_sign_in import begin as begin_at_company
from .discovery import Authority, challenge_for, discover, require_pkce
from .document import redirect_uri
from .door import unusable, visiting
from .grants import grant_of, holder
from .identity import client_for, known_issuers, opened
from .listeners import signed_in
from .scopes import chosen
from .token_requests import Denied, meaning, request_token

__all__ = ["AuthorizationRequest", "Returned", "begin", "finish"]

Authentication = Service.Authentication


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """One sign-in as it was decided before the person leaves."""

    authority: Authority
    client: OAuthClient
    scope: str
    challenge: Challenge


async def begin(
    service: Service, acting: Acting, *, session_key: str, base_url: str
) -> AuthorizationRequest:
    """Prepare a sign-in for this person in this browser session, good for ten minutes.

    `base_url` is where people reach this application. Raises an OperationError when the service
    offers no way to sign in that is safe to use.
    """
    if service.authentication == Authentication.COMPANY:
        return await begin_at_company(service, acting, session_key=session_key, base_url=base_url)
    if service.authentication not in (Authentication.OAUTH_USER, Authentication.OAUTH_SHARED):
        raise unusable("Nobody signs in to this service.", "Its settings say how it is opened.")
    async with visiting(service, "begin_sign_in") as door:
        challenge = await challenge_for(door, service, holder(service, acting))
        authority = await discover(door, challenge, await known_issuers(service))
        require_pkce(authority)
        grant = await database_sync_to_async(grant_of)(service, acting)
        scope = chosen(service, challenge, authority, grant)
        redirect = redirect_uri(service, base_url)
        client = await client_for(door, service, authority, redirect=redirect, scope=scope)
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
    begun = attempts.keep(attempt, session_key)
    return _request(plan, begun.state, begun.pkce.code_challenge)


def _request(plan: _Plan, state: str, code_challenge: str) -> AuthorizationRequest:
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
    service: Service, acting: Acting, returned: Returned, *, session_key: str
) -> OAuthGrant:
    """The grant for what was brought back, or an OperationError that says what to do. Nothing that
    came with the address is believed, nor shown, before state, person, session and issuer fit."""
    mine = OAuthAttempt.objects.filter(service=service, person_id=acting.user_id)
    claim = database_sync_to_async(attempts.claim)
    attempt = await claim(mine.exclude(client=None), returned.state, session_key)
    attempts.check_issuer(attempt, returned.iss)
    assert attempt.client is not None  # noqa: S101  excluded above
    if returned.error or not returned.code:
        raise not_signed_in(meaning(returned.error))
    client = await opened(attempt.client)
    form = {
        "grant_type": "authorization_code",
        "code": returned.code,
        "redirect_uri": attempt.client.redirect_uri,
        "code_verifier": sealed.verifier_of(attempt),
        "resource": attempt.resource,
    }
    try:
        async with visiting(service, "finish_sign_in") as door:
            token = await request_token(door, attempt.token_endpoint, client, form)
    except Denied as denied:
        raise not_signed_in(meaning(denied.code)) from denied
    grant = await database_sync_to_async(_store)(service, attempt, token)
    await signed_in(service, grant.person_id)
    return grant


@transaction.atomic
def _store(service: Service, attempt: OAuthAttempt, token: OAuthToken) -> OAuthGrant:
    """The grant of this sign-in, in place of an earlier one."""
    person_id = None if attempt.is_shared else attempt.person_id
    # The service's row lock keeps two sign-ins at once from both making a grant.
    locked = Service.objects.select_for_update(no_key=True).get(pk=service.pk)
    # It may have failed only because nobody was signed in, and nothing else would look again.
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
    grants.take(grant, token)
    grant.version += 1
    grant.lease, grant.lease_until = "", None
    grant.step_ups = grant.step_ups + 1 if was_step_up else 0
    grant.connected_at = timezone.now()
    grant.save()
    OAuthChallenge.objects.filter(service=service, person_id=person_id).delete()
    return grant
