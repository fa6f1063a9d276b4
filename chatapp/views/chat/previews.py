"""HTML, SVG and Mermaid of an answer as a page, in a frame that can reach nothing."""

import uuid
from collections.abc import Sequence
from urllib.parse import urljoin

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.clickjacking import xframe_options_sameorigin

from chatapp.rendering.figures.code_page import build_page, find_preview_kind
from chatapp.rendering.figures.diagram_options import MOST_CHARACTERS, build_drawing_options
from chatapp.rendering.figures.values import CodeBlock
from chatapp.views.access import MemberRequest, for_members
from mcpconfig.values.tool_apps import build_content_policy

from .conversations import build_sidebar_context
from .figures import find_figure

DIAGRAM_SCRIPTS = ("vendor/mermaid-tiny-12.0.0.min.js", "js/diagram.js")
DIAGRAM_STYLE = "css/diagram.css"


@for_members("GET", "HEAD")
def show_preview(
    request: MemberRequest, message_id: uuid.UUID, step: int, position: int, number: int
) -> HttpResponse:
    """Return the frame for the place of its code, or as a page above the code."""
    place = (message_id, step, position, number)
    code = _find_code(request, *place)
    context = {
        "code": code,
        "page": reverse("answer-page", args=place),
        "is_diagram": find_preview_kind(code.language) == "diagram",
    }
    if request.htmx:
        return render(request, "chat/_preview.html", context)
    context |= {
        "back": reverse("open-message", args=[message_id]),
        "file": reverse("answer-figure", args=place),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/preview.html", context)


@for_members("GET", "HEAD")
@xframe_options_sameorigin
def show_page(
    request: MemberRequest, message_id: uuid.UUID, step: int, position: int, number: int
) -> HttpResponse:
    """Serve the code as a page. As with an app of a tool, its policy removes its origin and forbids
    every host.

    It is for the frame only, whose own policy keeps the page from leading the frame elsewhere with
    something in the address. Opened directly, it leads to the page with the frame.
    """
    code = _find_code(request, message_id, step, position, number)
    if request.headers.get("Sec-Fetch-Dest", "iframe") != "iframe":
        return redirect("answer-preview", message_id, step, position, number)
    if find_preview_kind(code.language) == "diagram":
        return _seal(*_render_diagram(request, code))
    page = HttpResponse(build_page(code).encode("utf-8", "backslashreplace"))
    return _seal(page, build_content_policy([], [], []))


def _seal(response: HttpResponse, policy: str) -> HttpResponse:
    response["Content-Security-Policy"] = policy
    response["Referrer-Policy"] = "no-referrer"
    response["X-DNS-Prefetch-Control"] = "off"
    return response


def _render_diagram(request: MemberRequest, code: CodeBlock) -> tuple[HttpResponse, str]:
    """Return the page that draws the code, and its policy: only the two scripts run, whatever the
    diagram holds. Mermaid writes its style into the diagram."""
    is_long = len(code.text) > MOST_CHARACTERS
    scripts = [] if is_long else [static(name) for name in DIAGRAM_SCRIPTS]
    style = static(DIAGRAM_STYLE)
    context = {
        "code": code,
        "style": style,
        "scripts": scripts,
        "options": build_drawing_options(request.user.theme),
        "most_characters": MOST_CHARACTERS,
    }
    sources = _write_sources(request, scripts) or "'none'"
    policy = (
        f"sandbox allow-scripts; default-src 'none'; script-src {sources}; "
        f"style-src 'unsafe-inline' {_write_sources(request, [style])}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
    return render(request, "chat/diagram.html", context), policy


def _write_sources(request: MemberRequest, files: Sequence[str]) -> str:
    """Return the addresses of these files for a policy, where 'self' means nothing without an
    origin. A proxy may pass on another host than the one that browsers ask."""
    hosts = [host for host in (request.build_absolute_uri("/"), settings.PUBLIC_URL) if host]
    return " ".join(dict.fromkeys(urljoin(host, file) for host in hosts for file in files))


def _find_code(
    request: MemberRequest, message_id: uuid.UUID, step: int, position: int, number: int
) -> CodeBlock:
    code = find_figure(request.user, message_id, step, position, number)
    if not (isinstance(code, CodeBlock) and find_preview_kind(code.language)):
        raise Http404("Not code of a page.")
    return code
