"""How a service does, in an admin's words: state, last failure, next try."""

from datetime import datetime

from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from mcpconfig.models import Service

State = Service.State
NOTHING = "–"
_TONES = {State.CONNECTED: "good", State.SIGN_IN_NEEDED: "warn", State.FAILING: "bad"}


def state(service: Service) -> SafeString:
    """The colour repeats what the word says."""
    tone = _TONES.get(service.state, "quiet")
    return format_html('<span class="badge" data-tone="{}">{}</span>', tone, service.state)


def last_failure(service: Service) -> str:
    failed = service.last_error
    if not failed:
        return NOTHING
    at = datetime.fromisoformat(failed["at"])
    said = f"{failed['message']} {failed['hint']}".strip()
    return f"{said} ({_moment(at)})"


def next_try(service: Service) -> str:
    """When it is tried again by itself, if it is, and how often it was."""
    made = f"{service.retries} of {service.most_retries} tries made"
    if service.next_retry_at is not None:
        return f"{_moment(service.next_retry_at)}, {made}"
    if not service.last_error:
        return NOTHING
    return f"None by itself: {made}. Retry by hand." if service.retries else "None by itself."


def _moment(at: datetime) -> str:
    return str(date_format(localtime(at), "j M Y, H:i:s"))
