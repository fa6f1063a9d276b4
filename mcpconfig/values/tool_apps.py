"""The apps that tools bring (extension `io.modelcontextprotocol/ui`): which tool has one, whom a
tool is for, and what is taken in of an app's page and of what it asks to reach."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from .errors import OperationError
from .models.app_origins import ORIGIN
from .results import ResourceContents, ResourcePart

MIME_TYPE = "text/html;profile=mcp-app"
UI_EXTENSION: tuple[str, dict[str, Any]] = (
    "io.modelcontextprotocol/ui",
    {"mimeTypes": [MIME_TYPE]},
)
SCHEME = "ui://"
MOST_ORIGINS = 50

Audience = Literal["model", "app"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPage:
    """An app as its service gave it. `connects` and `loads` are the origins that it asks for."""

    html: str
    hash: str
    connects: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()


def app_uri(meta: dict[str, Any] | None) -> str:
    """Where the tool's app is, as its service names it; empty for a tool without one."""
    ui = _ui(meta)
    # The flat key is how the extension was written before it had a version.
    uri = ui.get("resourceUri") or (meta or {}).get("ui/resourceUri")
    return uri if isinstance(uri, str) and uri.startswith(SCHEME) else ""


def is_for(audience: Audience, meta: dict[str, Any] | None) -> bool:
    """Whether a tool is meant for the model, or for apps. One that does not say is for both; one
    that says it in a way that nobody can read is for neither."""
    visibility = _ui(meta).get("visibility")
    if visibility is None:
        return True
    return isinstance(visibility, list) and audience in visibility


def app_page(contents: ResourceContents) -> AppPage:
    """The app in what a service answered. Raises OperationError for anything else."""
    if contents.was_cut:
        raise _unusable("The app is too large to be shown.")
    part = next((part for part in contents.parts if _is_page(part)), None)
    html = _html(part) if part is not None else ""
    if part is None or not html:
        raise _unusable("The service sent something else than an app.")
    csp = _ui(part.meta).get("csp")
    asked = csp if isinstance(csp, dict) else {}
    return AppPage(
        html=html,
        hash=hashlib.sha256(html.encode()).hexdigest(),
        connects=_origins(asked.get("connectDomains")),
        loads=_origins(asked.get("resourceDomains")),
    )


def content_policy(connects: Iterable[str], loads: Iterable[str], allowed: Iterable[str]) -> str:
    """The content policy of an app's page: nothing but itself, and of the origins that it asks for
    those that an admin allowed."""
    permitted = set(allowed)
    reached = _permitted(connects, permitted) or "'none'"
    loaded = _permitted(loads, permitted)
    return "; ".join(
        (
            "sandbox allow-scripts",
            "default-src 'none'",
            f"script-src 'unsafe-inline' {loaded}".strip(),
            f"style-src 'unsafe-inline' {loaded}".strip(),
            f"img-src data: blob: {loaded}".strip(),
            f"media-src data: blob: {loaded}".strip(),
            f"font-src data: {loaded}".strip(),
            f"connect-src {reached}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'self'",
        )
    )


def _permitted(asked: Iterable[str], allowed: set[str]) -> str:
    return " ".join(sorted(origin for origin in set(asked) & allowed if ORIGIN.fullmatch(origin)))


def _ui(meta: dict[str, Any] | None) -> dict[str, Any]:
    ui = (meta or {}).get("ui")
    return ui if isinstance(ui, dict) else {}


def _is_page(part: ResourcePart) -> bool:
    return part.mime_type.replace(" ", "").lower() == MIME_TYPE


def _html(part: ResourcePart) -> str:
    return part.text if part.text is not None else (part.blob or b"").decode("utf-8", "replace")


def _origins(asked: Any) -> tuple[str, ...]:
    """The origins in a list of a service's; whatever is not one is left out."""
    listed = asked[:MOST_ORIGINS] if isinstance(asked, list) else []
    texts = (text.lower().rstrip("/") for text in listed if isinstance(text, str))
    return tuple(text for text in texts if ORIGIN.fullmatch(text))


def _unusable(message: str) -> OperationError:
    return OperationError(
        kind="protocol",
        message=message,
        hint="The tool's own answer is above. Tell whoever runs the service.",
        is_definite=True,
    )
