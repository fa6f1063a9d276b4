"""Sign-ins to a service in the admin: whose they are, how they stand, and ending them. What this
application is called there, and forgetting that. Secrets and tokens never come here."""

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from mcpconfig.models import Service
from mcpconfig.oauth import sign_ins

if TYPE_CHECKING:
    from .services import ServiceAdmin


def listed(desk: "ServiceAdmin", request: HttpRequest, service: Service) -> HttpResponse:
    context = {
        "service": service,
        "title": f"Sign-ins to {service}",
        "tab": "sign_ins",
        "sign_ins": sign_ins.sign_ins(service),
        "registrations": sign_ins.registrations(service),
    }
    return desk.page(request, "sign_ins", context)


def revoke(desk: "ServiceAdmin", request: HttpRequest, service: Service) -> HttpResponse:
    """End one sign-in; the person signs in again when they next use the service."""
    ended = sign_ins.revoke(service, _number(request, "sign_in"))
    if ended is None:
        messages.warning(request, "This sign-in is gone already.")
    else:
        whose = str(ended.person) if ended.person else "everybody"
        desk.log_change(request, service, f"Revoked the sign-in of {whose}.")
        messages.success(request, f"The sign-in of {whose} is revoked.")
    return redirect("admin:mcpconfig_service_sign_ins", service.pk)


def forget(desk: "ServiceAdmin", request: HttpRequest, service: Service) -> HttpResponse:
    """Drop a registration with its sign-ins; the next sign-in registers anew."""
    forgotten = sign_ins.forget_registration(service, _number(request, "registration"))
    if forgotten is None:
        messages.warning(request, "This registration is gone already, or was not made by itself.")
    else:
        desk.log_change(request, service, f"Forgot the registration at {forgotten.issuer}.")
        text = "The registration is forgotten. The next sign-in registers anew."
        messages.success(request, text)
    return redirect("admin:mcpconfig_service_sign_ins", service.pk)


def _number(request: HttpRequest, name: str) -> int:
    """The id in the form; -1, which nothing has, where it is none."""
    given = request.POST.get(name, "")
    return int(given) if given.isdecimal() and len(given) < 19 else -1
