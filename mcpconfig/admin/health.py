"""The state of services: the page of all services with *Retry now*, and columns of the list."""

from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from mcpconfig.models import Service
from mcpconfig.services.health import list_health
from mcpconfig.values.errors import OperationError

from .display import EMPTY, format_to_the_second, render_badge
from .service_pages import ServicePages

State = Service.State
_TONES = {State.CONNECTED: "good", State.SIGN_IN_NEEDED: "warn", State.FAILING: "bad"}


def show_health(pages: ServicePages, request: HttpRequest) -> HttpResponse:
    """Show the state of every service and what it needs from an admin."""
    health_list = list_health()
    context = {
        "title": _("Service health"),
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
        messages.success(request, _("%(service)s works again.") % {"service": service})
    else:
        messages.error(
            request,
            _("%(service)s still fails. %(reason)s")
            % {"service": service, "reason": error.message},
        )
    return redirect("admin:mcpconfig_service_health")


def render_state(service: Service) -> SafeString:
    return render_badge(_TONES.get(service.state, "quiet"), str(capfirst(service.state.label)))


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
    values = {"number": service.retries, "most": service.most_retries}
    if service.next_retry_at is not None:
        time = _format_moment(service.next_retry_at)
        return _("%(time)s, %(number)s of %(most)s retries made") % {"time": time, **values}
    if not service.last_error:
        return EMPTY
    if service.retries:
        return _("No automatic retry: %(number)s of %(most)s retries made. Retry by hand.") % values
    return _("No automatic retry.")


def _format_moment(at: datetime) -> str:
    return format_to_the_second(at, "DATETIME_FORMAT")
