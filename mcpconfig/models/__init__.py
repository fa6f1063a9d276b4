"""What is configured about services, and what was learned of them."""

from mcpconfig.models.service import Credential, Look, Service

from .exchange import Exchange
from .identity_provider import CompanySignIn, IdentityProvider
from .oauth import OAuthAttempt, OAuthChallenge, OAuthClient, OAuthGrant, OAuthRevocation
from .service_draft import ServiceDraft
from .tool import ToolDefinition, ToolSetting

__all__ = [
    "CompanySignIn",
    "Credential",
    "Exchange",
    "IdentityProvider",
    "Look",
    "OAuthAttempt",
    "OAuthChallenge",
    "OAuthClient",
    "OAuthGrant",
    "OAuthRevocation",
    "Service",
    "ServiceDraft",
    "ToolDefinition",
    "ToolSetting",
]
