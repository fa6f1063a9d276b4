"""Apps that tools bring: their page, sealed off, and what they may ask for through ours."""

import json
import uuid
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.clickjacking import xframe_options_sameorigin

from chatapp.models import ToolCall
from chatapp.turns import apps
from chatapp.turns.refusals import Refused
from mcpconfig.errors import OperationError
from mcpconfig.models.app_origins import origins_in
from mcpconfig.results import storable
from mcpconfig.tool_apps import content_policy

from .access import MemberRequest, for_members

MOST_BYTES = 64 * 1024
UNREADABLE = "The app asked in a way that nobody can read."


@for_members("GET")
@xframe_options_sameorigin
def app(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """The one page that is not ours.

    Its own policy takes its origin, so that it can read nothing of this site and its requests carry
    no cookie, and forbids it every address that an admin has not allowed. The policy stands on the
    answer, not only on the frame: also whoever opens the address itself gets a page without rights.
    """
    call = apps.call_with_app(request.user, call_id)
    try:
        found = apps.read_app(request.user, call)
    except OperationError as error:
        html, connects, loads = _problem(request, error), [], []
    else:
        html, connects, loads = found.contents.html, found.connects, found.loads
    allowed = origins_in(call.service.app_origins if call.service else "")
    response = HttpResponse(html)
    response["Content-Security-Policy"] = content_policy(connects, loads, allowed)
    response["Referrer-Policy"] = "no-referrer"
    response["X-DNS-Prefetch-Control"] = "off"
    return response


def _problem(request: MemberRequest, error: OperationError) -> str:
    return render(request, "chat/app_problem.html", {"error": error}).content.decode()


@for_members("GET")
def told(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """What the app's own tool was given, and what it answered."""
    return JsonResponse(apps.told_to_app(apps.call_with_app(request.user, call_id)))


@for_members("POST")
def call(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """A tool that the app asks for: accepted, and decided like any other; `at` tells of it."""
    shown = apps.call_with_app(request.user, call_id)
    try:
        name, arguments = _asked(request)
        made = apps.receive_from_app(request.user, shown, name, arguments)
    except Refused as refused:
        return JsonResponse({"error": refused.sentence}, status=refused.status)
    return JsonResponse({"at": reverse("app-called", args=[call_id, made.pk])}, status=202)


def _asked(request: MemberRequest) -> tuple[str, dict[str, Any]]:
    """The tool's name and its arguments. Raises Refused."""
    if len(request.body) > MOST_BYTES:
        raise Refused("The app asked for too much at once.", 413)
    try:
        asked = json.loads(request.body)
        name, arguments = asked["name"], asked.get("arguments") or {}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise Refused(UNREADABLE) from None
    if not isinstance(name, str) or storable(name) != name or not isinstance(arguments, dict):
        raise Refused(UNREADABLE)
    return name, arguments


@for_members("GET")
def called(request: MemberRequest, call_id: uuid.UUID, made_id: uuid.UUID) -> HttpResponse:
    """What came of a call that this app asked for; 202 while nobody knows."""
    shown = apps.call_with_app(request.user, call_id)
    made = ToolCall.of(request.user, made_id)
    if made.turn.app_of_id != shown.pk:
        return JsonResponse({"error": "This app did not ask for that."}, status=404)
    if made.turn.is_live:
        return JsonResponse({}, status=202)
    return JsonResponse({"result": apps.result_of(made)})
