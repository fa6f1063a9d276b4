"""The page of all services: how each does, what it needs, and *Retry now*."""

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from mcpconfig.errors import OperationError
from mcpconfig.health import health_of_all
from mcpconfig.models import Service

from .service_status import next_try

if TYPE_CHECKING:
    from .services import ServiceAdmin


def page(desk: "ServiceAdmin", request: HttpRequest) -> HttpResponse:
    found = health_of_all()
    context = {
        "title": "Health of the services",
        "rows": [{"health": each, "next_try": next_try(each.service)} for each in found],
        "needing": sum(each.needs_attention for each in found),
    }
    return desk.page(request, "health", context)


def retried(request: HttpRequest, service: Service, error: OperationError | None) -> HttpResponse:
    """Back to the page, which says in its row what is known now."""
    if error is None:
        messages.success(request, f"{service} works again.")
    else:
        messages.error(request, f"{service} still fails. {error.message}")
    return redirect("admin:mcpconfig_service_health")
