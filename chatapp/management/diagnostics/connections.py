"""Checks of the channel layer, the stored secrets and the services."""

import asyncio
import contextlib

from asgiref.sync import async_to_sync
from channels import DEFAULT_CHANNEL_LAYER
from channels.layers import BaseChannelLayer, channel_layers, get_channel_layer
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.models import Service
from mcpconfig.operations.lazy import operations
from mcpconfig.secrets.encryption import is_under_first_key
from mcpconfig.services.secret_rotation import iterate_stored_secrets
from mcpconfig.values.builtin import is_builtin
from mcpconfig.values.errors import OperationError

from .findings import Finding, report_doubtful, report_good, report_wrong

LAYER_SECONDS = 3
GROUP = "doctor"
LAYER_HINTS = {
    "Redis": gettext_lazy("Check REDIS_URL, and that Redis is running and reachable."),
    "PostgreSQL": gettext_lazy(
        "A connection pooler in transaction mode can’t LISTEN. Point DATABASE_URL to "
        "PostgreSQL itself or to a pooler in session mode. Or set REDIS_URL."
    ),
}


def check_channel_layer() -> list[Finding]:
    """Check that a message sent through the channel layer arrives."""
    channel_layer: BaseChannelLayer | None = get_channel_layer()
    if channel_layer is None:
        return [report_good(_("channel layer"), _("Not needed: there is one server process."))]
    carrier = "Redis" if settings.REDIS_URL else "PostgreSQL"
    try:
        async_to_sync(_send_and_receive)(channel_layer)
    except Exception as error:
        # Any exception is a failed check, because each channel layer raises its own.
        return [
            report_wrong(
                _("channel layer"),
                _("Messages do not arrive (%(error)s), so pages show changes late.")
                % {"error": type(error).__name__},
                str(LAYER_HINTS[carrier]),
            )
        ]
    return [
        report_good(_("channel layer"), _("%(carrier)s delivers messages.") % {"carrier": carrier})
    ]


async def _send_and_receive(layer: BaseChannelLayer) -> None:
    """Send on a connection of its own, as another process would: a pooler in transaction mode
    brings a message to the connection that sent it at most."""
    other = channel_layers.make_backend(DEFAULT_CHANNEL_LAYER)
    async with asyncio.timeout(LAYER_SECONDS):
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        # Joining takes a moment that the layers do not wait for.
        while True:
            await other.group_send(GROUP, {"type": "doctor.asks"})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAYER_SECONDS / 10):
                    await layer.receive(channel)
                    break
        await layer.group_discard(GROUP, channel)


def check_secrets() -> list[Finding]:
    """Check that each stored secret can be decrypted, and with the newest key."""
    stored = old = 0
    lost: list[str] = []
    for secret in iterate_stored_secrets():
        stored += 1
        if not secret.is_readable:
            lost.append(secret.place)
        elif not is_under_first_key(secret.token):
            old += 1
    if lost:
        hint = _("Restore the old key in ENCRYPTION_KEYS, or enter those secrets again.")
        return [
            report_wrong(
                _("secrets"),
                _("No key opens %(count)s: %(secrets)s.")
                % {"count": len(lost), "secrets": "; ".join(lost)},
                hint,
            )
        ]
    if old:
        hint = _("Run: %(command)s") % {"command": "manage.py rotate_keys"}
        return [
            report_doubtful(
                _("secrets"),
                _("%(count)s of %(total)s use an older key.") % {"count": old, "total": stored},
                hint,
            )
        ]
    return [
        report_good(
            _("secrets"),
            _("All %(count)s can be opened.") % {"count": stored}
            if stored
            else _("None are stored."),
        )
    ]


def check_services(*, connects: bool) -> list[Finding]:
    """Report the last state of each enabled service, or connect to each if `connects`."""
    enabled = Service.objects.filter(is_enabled=True)
    return [
        _test_service(service) if connects else _report_last_state(service) for service in enabled
    ]


def _report_last_state(service: Service) -> Finding:
    subject = _("service %(name)s") % {"name": service.name}
    if service.last_error is not None:
        problem = _("The last attempt failed: %(reason)s") % {
            "reason": service.last_error.get("message", "")
        }
        return report_wrong(
            subject,
            problem,
            _("Run: %(command)s") % {"command": f"manage.py mcp test {service.name}"},
        )
    if is_builtin(service.url):
        return report_good(subject, _("It is built into Countersign."))
    if service.last_success_at is None:
        hint = _("Run: %(command)s") % {"command": f"manage.py mcp test {service.name}"}
        return report_doubtful(subject, _("It was never connected."), hint)
    return report_good(
        subject,
        _("It last worked at %(time)s UTC.")
        % {"time": f"{service.last_success_at:%Y-%m-%d %H:%M}"},
    )


def _test_service(service: Service) -> Finding:
    subject = _("service %(name)s") % {"name": service.name}
    try:
        report = async_to_sync(operations.test_connection)(service)
    except OperationError as error:
        return report_wrong(subject, error.message, error.hint)
    return report_good(
        subject,
        _("It works: %(count)s tools in %(milliseconds)s ms.")
        % {"count": report.tool_count, "milliseconds": report.duration_ms},
    )
