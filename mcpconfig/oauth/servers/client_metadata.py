"""What this application publishes about itself: the addresses that people come back to, and the
document by which authorization servers know it without a registration."""

from typing import Any

from django.conf import settings

from mcpconfig.models import IdentityProvider, Service

NAME = "Countersign"
PATH = "/oauth/client.json"
GRANT_TYPES = ["authorization_code", "refresh_token"]


def redirect_uri(service: Service, base_url: str) -> str:
    """Where people come back to from the server that one service names."""
    return f"{base_url}/oauth/mcp/{service.name}/callback"


def published_redirect_uri(service: Service) -> str:
    """As `redirect_uri`, for the document. Anybody reads that, and the name of a service that is
    not for every member may tell what a team or a person works with: a number stands for it."""
    if service.visibility == Service.Visibility.EVERYONE:
        return redirect_uri(service, settings.PUBLIC_URL)
    return f"{settings.PUBLIC_URL}/oauth/mcp/~{service.pk}/callback"


def company_redirect_uri(provider: IdentityProvider, base_url: str) -> str:
    """One address for all services, because an admin registers it by hand."""
    return f"{base_url}/oauth/company/{provider.name}/callback"


def document_url() -> str:
    """Where servers read who this is; empty where they could not reach it."""
    base: str = settings.PUBLIC_URL
    return f"{base}{PATH}" if base.startswith("https://") else ""


def document() -> dict[str, Any] | None:
    """The document. It is public, so it tells only of services where people sign in, and of those
    that are not for everyone no name."""
    if not document_url():
        return None
    people = (Service.Authentication.OAUTH_USER, Service.Authentication.OAUTH_SHARED)
    services = Service.objects.filter(authentication__in=people, is_enabled=True)
    return {
        "client_id": document_url(),
        "client_name": NAME,
        "client_uri": settings.PUBLIC_URL,
        "redirect_uris": sorted(map(published_redirect_uri, services)),
        "grant_types": GRANT_TYPES,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web",
    }
