"""Apps of tools: their sandboxed page, and the tool calls that they make through our page."""

import json
import uuid
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.clickjacking import xframe_options_sameorigin

from chatapp.api import apps
from chatapp.models import ToolCall
from chatapp.people.refused import Refused
from chatapp.views.access import MemberRequest, for_members
from mcpconfig.models.service import parse_origins
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import make_storable
from mcpconfig.values.tool_apps import build_content_policy

MAX_BYTES = 64 * 1024
WAITS = gettext_lazy("This call is still waiting for a decision.")
# An app asks for the result of a call for so long.
ASKED_FOR = timedelta(minutes=10)
UNREADABLE = gettext_lazy("The request of the app is not valid.")


@for_members("GET")
@xframe_options_sameorigin
def show_app(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Serve the page of an app, the only page that Countersign did not write.

    Its content security policy removes its origin, so that it can read nothing of this site and
    sends no cookies, and forbids every host that an admin has not allowed. The policy is on the
    response, not only on the frame, so opening the address directly gives no rights either.
    """
    shown = apps.find_call_with_app(request.user, call_id)
    try:
        found = apps.read_app(request.user, shown)
    except OperationError as error:
        html, connects, loads = _render_problem(request, error), [], []
    else:
        html, connects, loads = found.contents.html, found.connects, found.loads
    allowed = parse_origins(shown.service.app_origins if shown.service else "")
    response = HttpResponse(html)
    response["Content-Security-Policy"] = build_content_policy(connects, loads, allowed)
    response["Referrer-Policy"] = "no-referrer"
    response["X-DNS-Prefetch-Control"] = "off"
    return response


def _render_problem(request: MemberRequest, error: OperationError) -> str:
    return render(request, "chat/app_problem.html", {"error": error}).content.decode()


@for_members("GET")
def show_input_and_result(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Return the messages to the app about the call that it belongs to: arguments and result."""
    return JsonResponse(apps.build_app_input(apps.find_call_with_app(request.user, call_id)))


@for_members("POST")
def receive_call(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Accept a tool call of the app. It is decided like any other; `at` is the URL of its result.
    One of a `busy` chat may be sent again."""
    shown = apps.find_call_with_app(request.user, call_id)
    try:
        name, arguments = _parse_call(request)
        made = apps.receive_from_app(request.user, shown, name, arguments)
    except Refused as refused:
        answer = {"error": refused.sentence, "busy": refused.status == HTTPStatus.CONFLICT}
        return JsonResponse(answer, status=refused.status)
    return JsonResponse({"at": reverse("app-called", args=[call_id, made.pk])}, status=202)


def _parse_call(request: MemberRequest) -> tuple[str, dict[str, Any]]:
    """Return the name of the tool and its arguments. Raises Refused."""
    if len(request.body) > MAX_BYTES:
        raise Refused(_("The request of the app is too large."), 413)
    try:
        asked = json.loads(request.body)
        name, arguments = asked["name"], asked.get("arguments") or {}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise Refused(UNREADABLE) from None
    if not isinstance(name, str) or make_storable(name) != name or not isinstance(arguments, dict):
        raise Refused(UNREADABLE)
    return name, arguments


@for_members("GET")
def show_call_result(
    request: MemberRequest, call_id: uuid.UUID, made_id: uuid.UUID
) -> HttpResponse:
    """Return the result of a call that this app made, or 202 while it is not over. After some time
    the app is told to stop asking."""
    shown = apps.find_call_with_app(request.user, call_id)
    made = ToolCall.of(request.user, made_id)
    if made.turn.app_of_id != shown.pk:
        return JsonResponse({"error": _("This app did not make that request.")}, status=404)
    if made.turn.is_live:
        is_late = timezone.now() - made.turn.created_at > ASKED_FOR
        return JsonResponse({"error": str(WAITS)} if is_late else {}, status=202)
    return JsonResponse({"result": apps.build_app_result(made)})
