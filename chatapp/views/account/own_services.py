"""Services that people add for themselves, where an admin allows it."""

from typing import Any

from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext_lazy

from chatapp.models import HousePolicy
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context
from mcpconfig.models import Service
from mcpconfig.oauth.sign_in_status import get_sign_in_status
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.services.own_services import TOO_OFTEN, OwnServiceForm, claim_look, list_own_services
from mcpconfig.services.sharing import build_shared_view, can_sign_in
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

INSIDE = gettext_lazy("Ask an admin to add services in your own network.")


@for_members("GET", "HEAD", "POST")
def add(request: MemberRequest) -> HttpResponse:
    """Add a service, list its tools once, and show the result."""
    _require_can_add(request)
    return _handle_form(request, Service())


@for_members("GET", "HEAD", "POST")
def change(request: MemberRequest, name: str) -> HttpResponse:
    _require_can_add(request)
    service = _find_own_service(request, name)
    if not service.is_enabled:
        raise PermissionDenied
    return _handle_form(request, service)


@for_members("GET", "HEAD")
def own_service(request: MemberRequest, name: str) -> HttpResponse:
    """Show the state of the service and its actions."""
    return _render_service(request, _find_own_service(request, name))


def _render_service(
    request: MemberRequest, service: Service, refusal: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "service": service,
        "refusal": refusal,
        "shared": build_shared_view(service, request.user),
        "standing": get_sign_in_status(service, Acting.of(request.user)),
        "may_connect": can_sign_in(service, request.user) and service.is_enabled,
        "problem": _describe_problem(service),
        "may_change": service.is_enabled and _can_add(request),
    }
    return _render_page(request, "own", context, status)


@for_members("POST")
def test(request: MemberRequest, name: str) -> HttpResponse:
    service = _find_own_service(request, name)
    if not service.is_enabled:
        raise PermissionDenied
    if not claim_look(request.user):
        return _render_service(request, service, str(TOO_OFTEN), status=429)
    _fetch_tools(request, service)
    return redirect("own-service", service.name)


@for_members("POST")
def remove(request: MemberRequest, name: str) -> HttpResponse:
    """Delete a service, even one that an admin disabled: its secrets belong to the person."""
    _find_own_service(request, name).delete()
    return redirect("services")


def _handle_form(request: MemberRequest, service: Service) -> HttpResponse:
    data = request.POST if request.method == "POST" else None
    name = service.name
    form = OwnServiceForm(data, instance=service, owner=request.user)
    if form.is_valid() and not claim_look(request.user):
        form.add_error(None, TOO_OFTEN)
    elif form.is_valid() and (kept := form.save_service()):
        _fetch_tools(request, kept)
        return redirect("own-service", kept.name)
    status = 422 if form.is_bound else 200
    return _render_page(request, "own_form", {"form": form, "name": name}, status)


def _fetch_tools(request: MemberRequest, service: Service) -> None:
    """List its tools without stored data. The service stores an error."""
    try:
        async_to_sync(fetch_tools)(service, acting=Acting.of(request.user), refresh=True)
    except OperationError:
        return


def _describe_problem(service: Service) -> dict[str, Any] | None:
    """Return why the service cannot be used. A hint about a setting names the admin instead."""
    error: dict[str, Any] | None = service.last_error
    if error is None or error.get("kind") == "sign_in_needed":
        return None
    return error | {"hint": str(INSIDE)} if error.get("kind") == "blocked_address" else error


def _find_own_service(request: MemberRequest, name: str) -> Service:
    """Return the person's own service of this name. Raises Http404."""
    return get_object_or_404(list_own_services(request.user), name=name)


def _can_add(request: MemberRequest) -> bool:
    return HousePolicy.current().lets_add(request.user)


def _require_can_add(request: MemberRequest) -> None:
    if not _can_add(request):
        raise PermissionDenied


def _render_page(
    request: MemberRequest, name: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    framed = {**context, **build_sidebar_context(request.user, "")}
    return render(request, f"services/{name}.html", framed, status=status)
