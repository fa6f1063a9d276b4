"""What is configured about services, and what was learned of them."""

from .company import CompanySignIn, IdentityProvider
from .credential import Credential
from .exchange import Exchange
from .look import Look
from .oauth import OAuthAttempt, OAuthChallenge, OAuthClient, OAuthGrant, OAuthRevocation
from .service import Service
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
    "ToolDefinition",
    "ToolSetting",
]
