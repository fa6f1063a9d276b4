"""The services that a person may use, and signing in to them."""

import uuid
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from chatapp.models import HousePolicy, ToolCall
from chatapp.rendering import fragments, page
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import IdentityProvider, Service
from mcpconfig.oauth import removal
from mcpconfig.oauth.document import document
from mcpconfig.oauth.standing import standing
from mcpconfig.on_first_use import company_sign_in, sign_in
from mcpconfig.own_services import own_services
from mcpconfig.sharing import may_connect, shared_view

from .access import MemberRequest, for_members
from .conversations import sidebar_context

if TYPE_CHECKING:
    from mcpconfig.oauth.attempts import Returned


@for_members("GET", "HEAD")
def services(request: MemberRequest) -> HttpResponse:
    acting = Acting.of(request.user)
    own = own_services(request.user)
    rows = [
        {
            "service": service,
            "shared": shared_view(service, request.user),
            "standing": standing(service, acting),
            "may_connect": may_connect(service, request.user),
            "is_own": service in own,
        }
        for service in Service.objects.for_member(request.user)
    ]
    context = {
        "rows": rows,
        "may_add": HousePolicy.current().lets_add(request.user),
        "switched_off": own.filter(is_enabled=False),
        **sidebar_context(request.user, ""),
    }
    return render(request, "services/services.html", context)


@for_members("POST")
def start(request: MemberRequest, name: str) -> HttpResponse:
    """Prepare a sign-in, and show the link that leads to it; for a call that waits for it, on the
    call's own card.

    A redirect would be stopped by the content policy, which lets forms go to this site only; and
    people see where they are being sent before they go.
    """
    service = _connectable(request, name=name)
    call = _waiting(request)
    try:
        asked = async_to_sync(sign_in.begin)(
            service,
            Acting.of(request.user),
            session_key=request.session.session_key or "",
            base_url=settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/"),
        )
    except OperationError as error:
        return _not_begun(request, service, call, error)
    _remember(request, service, call)
    if call is not None and request.htmx:
        return HttpResponse(fragments.tool_call(call, get_token(request), leads_to=asked))
    context = {"service": service, "asked": asked, **sidebar_context(request.user, "")}
    return render(request, "services/leave.html", context)


@for_members("GET")
def callback(request: MemberRequest, **which: str | int) -> HttpResponse:
    """What an authorization server sent the person back with. The state in it is the proof that
    this person asked for it in this browser: no other request of theirs can be forged into one.
    The address names the service, or says its number where the document keeps the name back."""
    service = _connectable(request, **which)
    session_key = request.session.session_key or ""
    try:
        async_to_sync(sign_in.finish)(
            service, Acting.of(request.user), _returned(request), session_key=session_key
        )
    except OperationError as error:
        response = _result(request, service, error)
    else:
        response = _back(request, service)
    # The address holds a code that is spent by now; it is still nobody else's business.
    response["Referrer-Policy"] = "no-referrer"
    return response


@for_members("GET")
def company_callback(request: MemberRequest, name: str) -> HttpResponse:
    """As `callback`, from a company's identity provider, which has one address for all services."""
    provider = get_object_or_404(IdentityProvider, name=name)
    session_key = request.session.session_key or ""
    try:
        service = async_to_sync(company_sign_in.finish)(
            provider, Acting.of(request.user), _returned(request), session_key=session_key
        )
    except OperationError as error:
        response = _result(request, provider, error)
    else:
        response = _back(request, service)
    response["Referrer-Policy"] = "no-referrer"
    return response


@for_members("POST")
def disconnect(request: MemberRequest, name: str) -> HttpResponse:
    removal.disconnect(_connectable(request, name=name), Acting.of(request.user))
    return redirect("services")


@require_safe
def client_document(_request: HttpRequest) -> HttpResponse:
    """Who this application is, for authorization servers; open to everybody."""
    known = document()
    if known is None:
        raise Http404
    return JsonResponse(known)


def _returned(request: MemberRequest) -> "Returned":
    return sign_in.Returned(
        state=request.GET.get("state", ""),
        code=request.GET.get("code", ""),
        error=request.GET.get("error", ""),
        iss=request.GET.get("iss"),
    )


def _connectable(request: MemberRequest, **which: str | int) -> Service:
    """The service that this person may use and sign in to, or 404 or 403."""
    service = get_object_or_404(Service.objects.for_member(request.user), **which)
    if not may_connect(service, request.user):
        raise PermissionDenied
    return service


def _waiting(request: MemberRequest) -> ToolCall | None:
    """The call on whose card this person pressed *Connect*, if it was on one."""
    given = request.POST.get("call", "")
    if not given:
        return None
    try:
        return ToolCall.of(request.user, uuid.UUID(given))
    except ValueError:
        raise Http404 from None


def _return_key(service: Service) -> str:
    return f"sign-in-for-{service.name}"


def _remember(request: MemberRequest, service: Service, call: ToolCall | None) -> None:
    """Where this browser goes on afterwards. Only ever the id of a call of this person's."""
    request.session.pop(_return_key(service), None)
    if call is not None:
        request.session[_return_key(service)] = str(call.pk)


def _back(request: MemberRequest, service: Service) -> HttpResponse:
    """To the conversation whose call waited, or to the page that says that it worked."""
    known = request.session.pop(_return_key(service), None)
    owned = ToolCall.objects.filter(turn__conversation__owner=request.user)
    call = owned.select_related("turn").filter(pk=known).first() if known else None
    if call is None:
        return _result(request, service, None)
    return redirect(f"/c/{call.turn.conversation_id}/#{page.tool_call_id(call.pk)}")


def _not_begun(
    request: MemberRequest, service: Service, call: ToolCall | None, error: OperationError
) -> HttpResponse:
    if call is None or not request.htmx:
        return _result(request, service, error)
    refusal = " ".join(filter(None, [error.message, error.hint]))
    return HttpResponse(fragments.tool_call(call, get_token(request), refusal), status=409)


def _result(
    request: MemberRequest, service: Service | IdentityProvider, error: OperationError | None
) -> HttpResponse:
    context = {"service": service, "error": error, **sidebar_context(request.user, "")}
    return render(request, "services/result.html", context, status=200 if error is None else 409)
