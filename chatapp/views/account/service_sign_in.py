"""The list of services that a person may use, and sign-in to them."""

import uuid
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from chatapp.live.page_facts import render_call
from chatapp.models import HousePolicy, ToolCall
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_call_address, build_sidebar_context
from mcpconfig.models import IdentityProvider, Service
from mcpconfig.oauth import removal
from mcpconfig.oauth.servers.client_metadata import build_document
from mcpconfig.oauth.sign_in_status import get_sign_in_status
from mcpconfig.operations.lazy import company_sign_in, sign_in
from mcpconfig.services.own_services import list_own_services
from mcpconfig.services.sharing import build_shared_view, can_sign_in
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

if TYPE_CHECKING:
    from mcpconfig.oauth.grants.attempts import CallbackParameters


@for_members("GET", "HEAD")
def services(request: MemberRequest) -> HttpResponse:
    acting = Acting.of(request.user)
    own = list_own_services(request.user)
    rows = [
        {
            "service": service,
            "shared": build_shared_view(service, request.user),
            "standing": get_sign_in_status(service, acting),
            "may_connect": can_sign_in(service, request.user),
            "is_own": service in own,
        }
        for service in Service.objects.for_member(request.user)
    ]
    context = {
        "rows": rows,
        "may_add": HousePolicy.current().lets_add(request.user),
        "switched_off": own.filter(is_enabled=False),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "services/services.html", context)


@for_members("POST")
def start(request: MemberRequest, name: str) -> HttpResponse:
    """Prepare a sign-in and show its link, on the card of the call that waits for it if there is
    one.

    The content security policy allows forms to this site only, so a redirect would be blocked; and
    people see the host before they leave.
    """
    service = _find_connectable(request, name=name)
    call = _find_waiting_call(request)
    try:
        asked = async_to_sync(sign_in.begin)(
            service,
            Acting.of(request.user),
            session_key=request.session.session_key or "",
            base_url=settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/"),
        )
    except OperationError as error:
        return _render_not_begun(request, service, call, error)
    _remember_call(request, service, call)
    if call is not None and request.htmx:
        return HttpResponse(render_call(call, get_token(request), leads_to=asked))
    context = {"service": service, "asked": asked, **build_sidebar_context(request.user, "")}
    return render(request, "services/leave.html", context)


@for_members("GET")
def callback(request: MemberRequest, **which: str | int) -> HttpResponse:
    """Finish a sign-in after the authorization server sent the person back.

    The state proves that this person began it in this browser, so that the request cannot be
    forged. The URL contains the name of the service, or its number where the client document hides
    the name.
    """
    service = _find_connectable(request, **which)
    session_key = request.session.session_key or ""
    try:
        async_to_sync(sign_in.finish)(
            service, Acting.of(request.user), _read_returned(request), session_key=session_key
        )
    except OperationError as error:
        response = _render_result(request, service, error)
    else:
        response = _redirect_back(request, service)
    # The URL contains a code. It is used up, but must not leak in a referrer.
    response["Referrer-Policy"] = "no-referrer"
    return response


@for_members("GET")
def company_callback(request: MemberRequest, name: str) -> HttpResponse:
    """Do the same as `callback` for the identity provider of a company, with one URL for all its
    services."""
    provider = get_object_or_404(IdentityProvider, name=name)
    session_key = request.session.session_key or ""
    try:
        service = async_to_sync(company_sign_in.finish)(
            provider, Acting.of(request.user), _read_returned(request), session_key=session_key
        )
    except OperationError as error:
        response = _render_result(request, provider, error)
    else:
        response = _redirect_back(request, service)
    response["Referrer-Policy"] = "no-referrer"
    return response


@for_members("POST")
def disconnect(request: MemberRequest, name: str) -> HttpResponse:
    removal.disconnect(_find_connectable(request, name=name), Acting.of(request.user))
    return redirect("services")


@require_safe
def client_document(_request: HttpRequest) -> HttpResponse:
    """Return the client metadata document for authorization servers. It is public."""
    known = build_document()
    if known is None:
        raise Http404
    return JsonResponse(known)


def _read_returned(request: MemberRequest) -> "CallbackParameters":
    return sign_in.CallbackParameters(
        state=request.GET.get("state", ""),
        code=request.GET.get("code", ""),
        error=request.GET.get("error", ""),
        iss=request.GET.get("iss"),
    )


def _find_connectable(request: MemberRequest, **which: str | int) -> Service:
    """Return the service that this person may sign in to. Raises Http404 and PermissionDenied."""
    service = get_object_or_404(Service.objects.for_member(request.user), **which)
    if not can_sign_in(service, request.user):
        raise PermissionDenied
    return service


def _find_waiting_call(request: MemberRequest) -> ToolCall | None:
    """Return the call on whose card this person pressed *Connect*, if any. Raises Http404."""
    given = request.POST.get("call", "")
    if not given:
        return None
    try:
        return ToolCall.of(request.user, uuid.UUID(given))
    except ValueError:
        raise Http404 from None


def _make_return_key(service: Service) -> str:
    return f"sign-in-for-{service.name}"


def _remember_call(request: MemberRequest, service: Service, call: ToolCall | None) -> None:
    """Remember in the session which call of this person waits for the sign-in."""
    request.session.pop(_make_return_key(service), None)
    if call is not None:
        request.session[_make_return_key(service)] = str(call.pk)


def _redirect_back(request: MemberRequest, service: Service) -> HttpResponse:
    """Redirect to the conversation of the waiting call, or show that the sign-in succeeded."""
    known = request.session.pop(_make_return_key(service), None)
    owned = ToolCall.objects.filter(turn__conversation__owner=request.user)
    call = owned.select_related("turn").filter(pk=known).first() if known else None
    if call is None:
        return _render_result(request, service, None)
    return redirect(build_call_address(call))


def _render_not_begun(
    request: MemberRequest, service: Service, call: ToolCall | None, error: OperationError
) -> HttpResponse:
    if call is None or not request.htmx:
        return _render_result(request, service, error)
    refusal = " ".join(filter(None, [error.message, error.hint]))
    return HttpResponse(render_call(call, get_token(request), refusal), status=409)


def _render_result(
    request: MemberRequest, service: Service | IdentityProvider, error: OperationError | None
) -> HttpResponse:
    context = {"service": service, "error": error, **build_sidebar_context(request.user, "")}
    return render(request, "services/result.html", context, status=200 if error is None else 409)
