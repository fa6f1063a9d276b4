"""Probes: `/healthz` checks this process, `/readyz` also the database, by writing to it, and the
channel layer, and whether it is stopping."""

import asyncio
import logging
import time

from asgiref.sync import async_to_sync
from channels.layers import BaseChannelLayer, get_channel_layer
from django.db import DatabaseError, connection
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from chatapp.models import WriteProbe
from chatapp.server.runtime import current_runtime

LAYER_SECONDS = 2
WRITE_SECONDS = 1.0

log = logging.getLogger(__name__)


@require_safe
@never_cache
async def liveness(request: HttpRequest) -> HttpResponse:
    """Asynchronous, so that it is answered while all threads of pages wait for the database."""
    return HttpResponse("alive\n", content_type="text/plain")


@require_safe
@never_cache
def readiness(request: HttpRequest) -> HttpResponse:
    silent = ["The server is stopping."] if current_runtime().is_stopping else []
    if problem := find_database_problem():
        silent.append(problem)
    if not async_to_sync(is_layer_reachable)():
        silent.append("The channel layer does not answer.")
    text = "\n".join(silent or ["ready"])
    return HttpResponse(f"{text}\n", status=503 if silent else 200, content_type="text/plain")


def find_database_problem() -> str:
    """Return what is wrong with the database, or an empty string.

    It writes a row, at most once a second in this process: a full disk still reads."""
    runtime = current_runtime()
    now = time.monotonic()
    if now - runtime.written_at < WRITE_SECONDS:
        return ""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        log.warning("The database does not answer.", exc_info=True)
        return "The database does not answer."
    try:
        write_probe()
    except DatabaseError:
        log.warning("The database cannot be written to.", exc_info=True)
        return "The database cannot be written to."
    runtime.written_at = now
    return ""


def write_probe() -> None:
    """Overwrite the one row of the probe."""
    if not WriteProbe.objects.filter(pk=1).update(written_at=Now()):
        WriteProbe.objects.bulk_create(
            [WriteProbe(pk=1, written_at=timezone.now())], ignore_conflicts=True
        )


async def is_layer_reachable() -> bool:
    """Return whether the layer accepts a message to an empty group. A single process has no layer
    and needs none."""
    try:
        layer: BaseChannelLayer | None = get_channel_layer()
        if layer is None:
            return True
        async with asyncio.timeout(LAYER_SECONDS):
            await layer.group_send("readiness", {"type": "readiness.probe"})
    except Exception:
        # Each layer raises its own exceptions.
        log.warning("The channel layer does not answer.", exc_info=True)
        return False
    return True
