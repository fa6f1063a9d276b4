"""Examines what this process reaches: the channel layer, the stored secrets, the services."""

import asyncio

from asgiref.sync import async_to_sync
from channels.layers import BaseChannelLayer, get_channel_layer

from mcpconfig.builtin import is_builtin
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.on_first_use import operations
from mcpconfig.secrets import is_under_first_key
from mcpconfig.vault import stored_secrets

from .findings import Finding, doubtful, good, wrong

LAYER_SECONDS = 3
GROUP = "doctor"


def layer() -> list[Finding]:
    """Sends a message through the layer and waits for it."""
    channel_layer: BaseChannelLayer | None = get_channel_layer()
    if channel_layer is None:
        return [good("channel layer", "None is needed: one server process.")]
    try:
        async_to_sync(_round_trip)(channel_layer)
    except Exception as error:
        # Each layer fails in its own way; whatever it raised, messages do not arrive.
        return [
            wrong(
                "channel layer",
                f"Messages do not arrive ({type(error).__name__}): pages learn of changes late.",
                "Check REDIS_URL, and that Redis runs and can be reached from here.",
            )
        ]
    return [good("channel layer", "Redis delivers.")]


async def _round_trip(layer: BaseChannelLayer) -> None:
    async with asyncio.timeout(LAYER_SECONDS):
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        await layer.group_send(GROUP, {"type": "doctor.asks"})
        await layer.receive(channel)
        await layer.group_discard(GROUP, channel)


def secrets() -> list[Finding]:
    """Whether each stored secret can still be opened."""
    stored = list(stored_secrets())
    lost = [secret.place for secret in stored if not secret.is_readable]
    if lost:
        hint = "Bring the old key back to ENCRYPTION_KEYS, or enter those secrets anew."
        return [wrong("secrets", f"No key opens {len(lost)}: {'; '.join(lost)}.", hint)]
    old = sum(not is_under_first_key(secret.token) for secret in stored)
    if old:
        hint = "Run: manage.py rotate_keys"
        return [doubtful("secrets", f"{old} of {len(stored)} are under an older key.", hint)]
    return [good("secrets", f"All {len(stored)} can be opened." if stored else "None are stored.")]


def services(*, connects: bool) -> list[Finding]:
    """How each service did last; with `connects`, how it does now."""
    enabled = Service.objects.filter(is_enabled=True)
    return [_tested(service) if connects else _remembered(service) for service in enabled]


def _remembered(service: Service) -> Finding:
    subject = f"service {service.name}"
    if service.last_error is not None:
        failed = f"It failed last: {service.last_error.get('message', '')}"
        return wrong(subject, failed, f"Run: manage.py mcp test {service.name}")
    if is_builtin(service.url):
        return good(subject, "It is part of this program.")
    if service.last_success_at is None:
        hint = f"Run: manage.py mcp test {service.name}"
        return doubtful(subject, "It was never connected to.", hint)
    return good(subject, f"It worked last at {service.last_success_at:%Y-%m-%d %H:%M} UTC.")


def _tested(service: Service) -> Finding:
    subject = f"service {service.name}"
    try:
        report = async_to_sync(operations.test_connection)(service)
    except OperationError as error:
        return wrong(subject, error.message, error.hint)
    return good(subject, f"It works: {report.tool_count} tools in {report.duration_ms} ms.")
