"""The admin page of the sign-ins to a service: whose they are, their state, and how to end them.

It also shows the client registrations of this application at authorization servers, and forgets
them. No secret or token reaches these pages.
"""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mcpconfig.models import Service
from mcpconfig.oauth import sign_in_admin
from mcpconfig.values.numbers import read_number

from .service_pages import ServicePages

SIGN_INS_PER_PAGE = 50


def show_sign_ins(pages: ServicePages, request: HttpRequest, service: Service) -> HttpResponse:
    rows = Paginator(sign_in_admin.filter_sign_ins(service), SIGN_INS_PER_PAGE)
    page = rows.get_page(request.GET.get("page"))
    context = {
        "service": service,
        "title": _("Sign-ins to %(service)s") % {"service": service},
        "tab": "sign_ins",
        "page": page,
        "sign_ins": sign_in_admin.build_sign_ins(service, page.object_list),
        "registrations": sign_in_admin.list_registrations(service),
    }
    return pages.render_page(request, "sign_ins", context)


def revoke_sign_in(pages: ServicePages, request: HttpRequest, service: Service) -> HttpResponse:
    """End one sign-in. The person signs in again when they next use the service."""
    ended = sign_in_admin.revoke(service, _read_id(request, "sign_in"))
    if ended is None:
        messages.warning(request, _("This sign-in has already ended."))
    elif ended.person is None:
        pages.log_change(request, service, _("Revoked the shared sign-in."))
        messages.success(request, _("The shared sign-in is revoked."))
    else:
        whose = {"person": str(ended.person)}
        pages.log_change(request, service, _("Revoked the sign-in of %(person)s.") % whose)
        messages.success(request, _("The sign-in of %(person)s is revoked.") % whose)
    return redirect("admin:mcpconfig_service_sign_ins", service.pk)


def forget_registration(
    pages: ServicePages, request: HttpRequest, service: Service
) -> HttpResponse:
    """Delete a registration with its sign-ins. The next sign-in registers again."""
    forgotten = sign_in_admin.forget_registration(service, _read_id(request, "registration"))
    if forgotten is None:
        messages.warning(
            request, _("This registration was already deleted, or was not made automatically.")
        )
    else:
        pages.log_change(
            request,
            service,
            _("Deleted the registration at %(issuer)s.") % {"issuer": forgotten.issuer},
        )
        text = _("The registration is deleted. The next sign-in registers again.")
        messages.success(request, text)
    return redirect("admin:mcpconfig_service_sign_ins", service.pk)


def _read_id(request: HttpRequest, name: str) -> int:
    """Return the id in the form, or -1, which no row has, if the field is not an id."""
    number = read_number(request.POST.get(name, ""))
    return -1 if number is None else number
