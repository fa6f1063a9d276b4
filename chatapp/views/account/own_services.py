"""Services that people add for themselves, where an admin lets them."""

from typing import Any

from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from chatapp.models import HousePolicy
from mcpconfig import ledger
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.oauth.standing import standing
from mcpconfig.own_services import TOO_OFTEN, OwnServiceForm, may_look, own_services
from mcpconfig.sharing import may_connect, shared_view

from .access import MemberRequest, for_members
from .conversations import sidebar_context

INSIDE = "A service in your own network is added by an admin."


@for_members("GET", "HEAD", "POST")
def add(request: MemberRequest) -> HttpResponse:
    """Store it, look at it once, and show what came of it."""
    _check_may_add(request)
    return _filled_in(request, Service())


@for_members("GET", "HEAD", "POST")
def change(request: MemberRequest, name: str) -> HttpResponse:
    _check_may_add(request)
    service = _own(request, name)
    if not service.is_enabled:
        raise PermissionDenied
    return _filled_in(request, service)


@for_members("GET", "HEAD")
def own_service(request: MemberRequest, name: str) -> HttpResponse:
    """How it does, and what may be done with it."""
    return _shown(request, _own(request, name))


def _shown(
    request: MemberRequest, service: Service, refusal: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "service": service,
        "refusal": refusal,
        "shared": shared_view(service, request.user),
        "standing": standing(service, Acting.of(request.user)),
        "may_connect": may_connect(service, request.user) and service.is_enabled,
        "problem": _problem(service),
        "may_change": service.is_enabled and _may_add(request),
    }
    return _page(request, "own", context, status)


@for_members("POST")
def test(request: MemberRequest, name: str) -> HttpResponse:
    service = _own(request, name)
    if not service.is_enabled:
        raise PermissionDenied
    if not may_look(request.user):
        return _shown(request, service, TOO_OFTEN, status=429)
    _look(request, service)
    return redirect("own-service", service.name)


@for_members("POST")
def remove(request: MemberRequest, name: str) -> HttpResponse:
    """Also one that an admin switched off: its secrets are the person's own."""
    _own(request, name).delete()
    return redirect("services")


def _filled_in(request: MemberRequest, service: Service) -> HttpResponse:
    data = request.POST if request.method == "POST" else None
    name = service.name
    form = OwnServiceForm(data, instance=service, owner=request.user)
    if form.is_valid() and not may_look(request.user):
        form.add_error(None, TOO_OFTEN)
    elif form.is_valid() and (kept := form.keep()):
        _look(request, kept)
        return redirect("own-service", kept.name)
    status = 422 if form.is_bound else 200
    return _page(request, "own_form", {"form": form, "name": name}, status)


def _look(request: MemberRequest, service: Service) -> None:
    """List its tools, as if for the first time. How it failed is stored with it."""
    try:
        async_to_sync(ledger.fetch_tools)(service, acting=Acting.of(request.user), refresh=True)
    except OperationError:
        return


def _problem(service: Service) -> dict[str, Any] | None:
    """Why it cannot be used. Where an admin's setting would help, it is the admin who is named."""
    error: dict[str, Any] | None = service.last_error
    if error is None or error.get("kind") == "sign_in_needed":
        return None
    return error | {"hint": INSIDE} if error.get("kind") == "blocked_address" else error


def _own(request: MemberRequest, name: str) -> Service:
    """The service of this name that is this person's alone, or 404."""
    return get_object_or_404(own_services(request.user), name=name)


def _may_add(request: MemberRequest) -> bool:
    return HousePolicy.current().lets_add(request.user)


def _check_may_add(request: MemberRequest) -> None:
    if not _may_add(request):
        raise PermissionDenied


def _page(
    request: MemberRequest, name: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    framed = {**context, **sidebar_context(request.user, "")}
    return render(request, f"services/{name}.html", framed, status=status)
