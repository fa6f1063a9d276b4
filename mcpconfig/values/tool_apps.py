"""Apps of tools (extension `io.modelcontextprotocol/ui`): which tool has one, who may use a tool,
and how an app's page and the origins that it asks for are parsed."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext as _

from .errors import OperationError
from .results import ResourceContents, ResourcePart

MIME_TYPE = "text/html;profile=mcp-app"
UI_EXTENSION: tuple[str, dict[str, Any]] = (
    "io.modelcontextprotocol/ui",
    {"mimeTypes": [MIME_TYPE]},
)
SCHEME = "ui://"
MAX_ORIGINS = 50
ORIGIN = re.compile(
    r"(https?|wss?)://(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:\d{1,5})?"
)

Audience = Literal["model", "app"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPage:
    """The page of an app. `connects` and `loads` are the origins that it asks for."""

    html: str
    hash: str
    connects: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()


def get_app_uri(meta: dict[str, Any] | None) -> str:
    """Return the URI of the tool's app; empty for a tool without one."""
    ui = _get_ui_meta(meta)
    # The flat key is from before the extension had a version.
    uri = ui.get("resourceUri") or (meta or {}).get("ui/resourceUri")
    return uri if isinstance(uri, str) and uri.startswith(SCHEME) else ""


def is_for(audience: Audience, meta: dict[str, Any] | None) -> bool:
    """Whether a tool is meant for the model, or for apps. A tool without a visibility is for both;
    one with an unreadable visibility is for neither."""
    visibility = _get_ui_meta(meta).get("visibility")
    if visibility is None:
        return True
    return isinstance(visibility, list) and audience in visibility


def parse_app_page(contents: ResourceContents) -> AppPage:
    """Return the app of a resource. Raises OperationError for anything else."""
    if contents.was_cut:
        raise _app_error(_("The app is too large to show."))
    part = next((part for part in contents.parts if _is_page(part)), None)
    html = _decode_html(part) if part is not None else ""
    if part is None or not html:
        raise _app_error(_("The service sent something other than an app."))
    csp = _get_ui_meta(part.meta).get("csp")
    asked = csp if isinstance(csp, dict) else {}
    return AppPage(
        html=html,
        hash=hashlib.sha256(html.encode()).hexdigest(),
        connects=_parse_origins(asked.get("connectDomains")),
        loads=_parse_origins(asked.get("resourceDomains")),
    )


def build_content_policy(
    connects: Iterable[str], loads: Iterable[str], allowed: Iterable[str]
) -> str:
    """Return the content security policy of an app's page: only itself, and the requested origins
    that an admin allowed."""
    permitted = set(allowed)
    reached = _join_allowed_origins(connects, permitted) or "'none'"
    loaded = _join_allowed_origins(loads, permitted)
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


def _join_allowed_origins(asked: Iterable[str], allowed: set[str]) -> str:
    return " ".join(sorted(origin for origin in set(asked) & allowed if ORIGIN.fullmatch(origin)))


def _get_ui_meta(meta: dict[str, Any] | None) -> dict[str, Any]:
    ui = (meta or {}).get("ui")
    return ui if isinstance(ui, dict) else {}


def _is_page(part: ResourcePart) -> bool:
    return part.mime_type.replace(" ", "").lower() == MIME_TYPE


def _decode_html(part: ResourcePart) -> str:
    return part.text if part.text is not None else (part.blob or b"").decode("utf-8", "replace")


def _parse_origins(asked: Any) -> tuple[str, ...]:
    """Return the valid origins of the list."""
    listed = asked[:MAX_ORIGINS] if isinstance(asked, list) else []
    texts = (text.lower().rstrip("/") for text in listed if isinstance(text, str))
    return tuple(text for text in texts if ORIGIN.fullmatch(text))


def _app_error(message: str) -> OperationError:
    return OperationError(
        kind="protocol",
        message=message,
        hint=_("The tool’s own result is above. Report this to the service’s operator."),
        is_definite=True,
    )
