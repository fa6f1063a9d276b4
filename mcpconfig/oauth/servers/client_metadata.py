"""The metadata that this application publishes: its redirect addresses, and the document by which
authorization servers identify it without a registration."""

from typing import Any

from django.conf import settings

from mcpconfig.models import IdentityProvider, Service

NAME = "Countersign"
PATH = "/oauth/client.json"
GRANT_TYPES = ["authorization_code", "refresh_token"]


def build_redirect_uri(service: Service, base_url: str) -> str:
    """Return the redirect URI of a sign-in to one service."""
    return f"{base_url}/oauth/mcp/{service.name}/callback"


def build_published_redirect_uri(service: Service) -> str:
    """Return the redirect URI in the public document. The name of a service that is not for every
    member may reveal what a team or a person works with, so a number replaces it."""
    if service.visibility == Service.Visibility.EVERYONE:
        return build_redirect_uri(service, settings.PUBLIC_URL)
    return f"{settings.PUBLIC_URL}/oauth/mcp/~{service.pk}/callback"


def build_company_redirect_uri(provider: IdentityProvider, base_url: str) -> str:
    """Return the one redirect URI for all services, because an admin registers it by hand."""
    return f"{base_url}/oauth/company/{provider.name}/callback"


def get_document_url() -> str:
    """Return the URL of the document; empty if servers could not reach it."""
    base: str = settings.PUBLIC_URL
    return f"{base}{PATH}" if base.startswith("https://") else ""


def build_document() -> dict[str, Any] | None:
    """Return the document. It is public, so it contains only services where people sign in, and no
    name of a service that is not for everyone."""
    if not get_document_url():
        return None
    people = (Service.Authentication.OAUTH_USER, Service.Authentication.OAUTH_SHARED)
    services = Service.objects.filter(authentication__in=people, is_enabled=True)
    return {
        "client_id": get_document_url(),
        "client_name": NAME,
        "client_uri": settings.PUBLIC_URL,
        "redirect_uris": sorted(map(build_published_redirect_uri, services)),
        "grant_types": GRANT_TYPES,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web",
    }
