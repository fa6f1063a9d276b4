"""Which rights a sign-in asks for: what is needed and no more, and never less than there was."""

from mcp.client.auth.utils import union_scopes

from mcpconfig.models import OAuthGrant, Service

from .challenges import Challenge
from .discovery import Authority

OFFLINE = "offline_access"


def chosen(
    service: Service,
    challenge: Challenge,
    authority: Authority,
    grant: OAuthGrant | None,
    *,
    is_own: bool = False,
) -> str:
    """In the protocol's order: what the service asked for, else what an admin entered, else what
    the service says is its least; and with a step-up, also all that was asked for before."""
    scope = challenge.scope or service.scopes or " ".join(authority.resource_scopes)
    if challenge.scope and service.scopes:
        scope = union_scopes(service.scopes, challenge.scope) or ""
    if challenge.is_step_up and grant is not None:
        scope = union_scopes(grant.wanted_scope or grant.scope, scope) or ""
    offered = authority.metadata.scopes_supported or []
    # Without it many servers give no refresh token; alone it would be a wish for nothing else.
    if scope and not is_own and OFFLINE in offered:
        scope = union_scopes(scope, OFFLINE) or ""
    return scope
