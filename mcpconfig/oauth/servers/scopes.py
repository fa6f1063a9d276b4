"""The scopes that a sign-in requests: what is needed and no more, and never less than before."""

from mcp.client.auth.utils import union_scopes

from mcpconfig.models import OAuthGrant, Service
from mcpconfig.values.challenge import Challenge

from .discovery import Authority

OFFLINE = "offline_access"


def choose_scope(
    service: Service,
    challenge: Challenge,
    authority: Authority,
    grant: OAuthGrant | None,
    *,
    is_own: bool = False,
) -> str:
    """Return the scope in the order of the protocol: what the service asked for, else what an admin
    entered, else the minimum that the service states. A step-up adds all that was requested
    before."""
    scope = challenge.scope or service.scopes or " ".join(authority.resource_scopes)
    if challenge.scope and service.scopes:
        scope = union_scopes(service.scopes, challenge.scope) or ""
    if challenge.is_step_up and grant is not None:
        scope = union_scopes(grant.wanted_scope or grant.scope, scope) or ""
    offered = authority.metadata.scopes_supported or []
    # Without it many servers give no refresh token; alone it would request nothing else.
    if scope and not is_own and OFFLINE in offered:
        scope = union_scopes(scope, OFFLINE) or ""
    return scope
