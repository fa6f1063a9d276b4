"""The state of services: the page of all services with *Retry now*, and columns of the list."""

from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.formats import date_format
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from mcpconfig.models import Service
from mcpconfig.services.health import list_health
from mcpconfig.values.errors import OperationError

from .display import EMPTY, render_badge
from .service_pages import ServicePages

State = Service.State
_TONES = {State.CONNECTED: "good", State.SIGN_IN_NEEDED: "warn", State.FAILING: "bad"}


def show_health(pages: ServicePages, request: HttpRequest) -> HttpResponse:
    """Show the state of every service and what it needs from an admin."""
    health_list = list_health()
    context = {
        "title": "Health of the services",
        "rows": [
            {"health": each, "next_try": describe_next_try(each.service)} for each in health_list
        ],
        "needing": sum(each.needs_attention for each in health_list),
    }
    return pages.render_page(request, "health", context)


def redirect_after_retry(
    request: HttpRequest, service: Service, error: OperationError | None
) -> HttpResponse:
    """Report the result of a retry and return to the health page, whose row shows the new state."""
    if error is None:
        messages.success(request, f"{service} works again.")
    else:
        messages.error(request, f"{service} still fails. {error.message}")
    return redirect("admin:mcpconfig_service_health")


def render_state(service: Service) -> SafeString:
    return render_badge(_TONES.get(service.state, "quiet"), service.state)


def describe_last_failure(service: Service) -> str:
    """Return message, hint and time of the last failure."""
    failed = service.last_error
    if not failed:
        return EMPTY
    at = datetime.fromisoformat(failed["at"])
    text = f"{failed['message']} {failed['hint']}".strip()
    return f"{text} ({_format_moment(at)})"


def describe_next_try(service: Service) -> str:
    """Return the time of the next automatic retry and the number of retries so far."""
    made = f"{service.retries} of {service.most_retries} tries made"
    if service.next_retry_at is not None:
        return f"{_format_moment(service.next_retry_at)}, {made}"
    if not service.last_error:
        return EMPTY
    return f"None by itself: {made}. Retry by hand." if service.retries else "None by itself."


def _format_moment(at: datetime) -> str:
    return str(date_format(localtime(at), "j M Y, H:i:s"))
