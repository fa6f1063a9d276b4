"""HTML and SVG of an answer as a page, in a frame that can reach nothing."""

import uuid

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.clickjacking import xframe_options_sameorigin

from chatapp.rendering.figures.code_page import build_page, is_page
from chatapp.rendering.figures.values import CodeBlock
from chatapp.views.access import MemberRequest, for_members
from mcpconfig.values.tool_apps import build_content_policy

from .conversations import build_sidebar_context, frames_sandboxes
from .figures import find_figure


@for_members("GET", "HEAD")
@frames_sandboxes
def show_preview(
    request: MemberRequest, message_id: uuid.UUID, step: int, position: int, number: int
) -> HttpResponse:
    """Return the frame for the place of its code, or as a page above the code."""
    place = (message_id, step, position, number)
    context = {"code": _find_code(request, *place), "page": reverse("answer-page", args=place)}
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
    response = HttpResponse(build_page(code).encode("utf-8", "backslashreplace"))
    response["Content-Security-Policy"] = build_content_policy([], [], [])
    response["Referrer-Policy"] = "no-referrer"
    response["X-DNS-Prefetch-Control"] = "off"
    return response


def _find_code(
    request: MemberRequest, message_id: uuid.UUID, step: int, position: int, number: int
) -> CodeBlock:
    code = find_figure(request.user, message_id, step, position, number)
    if not (isinstance(code, CodeBlock) and is_page(code.language)):
        raise Http404("Not code of a page.")
    return code
