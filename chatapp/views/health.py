"""Probes: `/healthz` says that this process answers, `/readyz` that what it rests on does."""

import asyncio
import logging

from asgiref.sync import async_to_sync
from channels.layers import BaseChannelLayer, get_channel_layer
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

LAYER_SECONDS = 2

log = logging.getLogger(__name__)


@require_safe
@never_cache
def alive(request: HttpRequest) -> HttpResponse:
    return HttpResponse("alive\n", content_type="text/plain")


@require_safe
@never_cache
def ready(request: HttpRequest) -> HttpResponse:
    silent = []
    if not database_answers():
        silent.append("The database does not answer.")
    if not async_to_sync(layer_answers)():
        silent.append("The channel layer does not answer.")
    text = "\n".join(silent or ["ready"])
    return HttpResponse(f"{text}\n", status=503 if silent else 200, content_type="text/plain")


def database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        log.warning("The database does not answer.", exc_info=True)
        return False
    return True


async def layer_answers() -> bool:
    """Whether a message can be sent; nobody is in this group, so nobody receives it. One process
    alone has no layer, and needs none."""
    try:
        layer: BaseChannelLayer | None = get_channel_layer()
        if layer is None:
            return True
        async with asyncio.timeout(LAYER_SECONDS):
            await layer.group_send("readiness", {"type": "readiness.probe"})
    except Exception:
        # Each layer fails in its own way; whatever it raised, it does not answer.
        log.warning("The channel layer does not answer.", exc_info=True)
        return False
    return True
