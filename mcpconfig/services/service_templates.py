"""Templates for well-known services: address, sign-in, and what to prepare there."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _lazy

from mcpconfig.models import Service

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Authentication = Service.Authentication


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTemplate:
    """What the page *Add a service* fills in. The check of the address has the last word."""

    key: str
    label: "StrOrPromise"
    name: str
    title: str
    url: str
    authentication: str
    advice: "StrOrPromise"
    allows_private: bool = False


TEMPLATES = (
    ServiceTemplate(
        key="github",
        label="GitHub",
        name="github",
        title="GitHub",
        url="https://api.githubcopilot.com/mcp/",
        authentication=Authentication.OAUTH_USER,
        advice=_lazy(
            "Create an OAuth app or a GitHub App in your organization’s settings. Give it the "
            "redirect URL that the check shows, and enter its client ID and secret here. A "
            "fine-grained personal access token also works: choose “Bearer token”. "
            "Everyone then acts as its owner."
        ),
    ),
    ServiceTemplate(
        key="notion",
        label="Notion",
        name="notion",
        title="Notion",
        url="https://mcp.notion.com/mcp",
        authentication=Authentication.OAUTH_USER,
        advice=_lazy(
            "Countersign registers itself. Each member signs in and chooses the workspace. An "
            "admin of the workspace may have to allow the connection first."
        ),
    ),
    ServiceTemplate(
        key="linear",
        label="Linear",
        name="linear",
        title="Linear",
        url="https://mcp.linear.app/mcp",
        authentication=Authentication.OAUTH_USER,
        advice=_lazy("Countersign registers itself. Each member signs in with their own account."),
    ),
    ServiceTemplate(
        key="sentry",
        label="Sentry",
        name="sentry",
        title="Sentry",
        url="https://mcp.sentry.dev/mcp",
        authentication=Authentication.OAUTH_USER,
        advice=_lazy(
            "Countersign registers itself. Error reports can contain text from anyone, so turn on "
            "“returns untrusted content” in the settings after you add it."
        ),
    ),
    ServiceTemplate(
        key="slack",
        label="Slack",
        name="slack",
        title="Slack",
        url="https://mcp.slack.com/mcp",
        authentication=Authentication.OAUTH_USER,
        advice=_lazy(
            "Slack accepts only registered apps. Create an internal app at api.slack.com/apps, add "
            "the redirect URL that the check shows, choose user scopes, and enter the app’s client "
            "ID and secret."
        ),
    ),
    ServiceTemplate(
        key="google",
        label="Google Workspace",
        name="gmail",
        title="Gmail",
        url="https://gmailmcp.googleapis.com/mcp/v1",
        authentication=Authentication.OAUTH_USER,
        advice=_lazy(
            "Each Google product has a service of its own; this is Gmail’s. Enable the product’s "
            "API and its MCP API in your Google Cloud project. Create an OAuth client with the "
            "redirect URL that the check shows, and enter its client ID and secret. Mail contains "
            "text from anyone, so turn on “returns untrusted content” in the settings."
        ),
    ),
    ServiceTemplate(
        key="bridge",
        label=_lazy("Local bridge"),
        name="",
        title="",
        url="http://127.0.0.1:8080/mcp",
        authentication=Authentication.NONE,
        allows_private=True,
        advice=_lazy(
            "For a server that runs as a local command (stdio). Start it behind a bridge on this "
            "machine or in your network, for example with mcp-proxy, and enter the bridge’s URL. "
            "Everyone who can reach the bridge’s port can use it, so bind it to a private address."
        ),
    ),
)


def get_template(key: str) -> ServiceTemplate | None:
    return next((template for template in TEMPLATES if template.key == key), None)
