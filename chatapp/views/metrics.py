"""`/metrics` for Prometheus: who may read it, and the numbers that come from the database."""

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import cast

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from chatapp.background.results import count_tasks
from chatapp.engine.backlog import Backlog, read_backlog
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from chatapp.telemetry import metrics
from mcpconfig.values.version import VERSION

# Several servers may be asked at once, and a person with a browser may ask often.
KEPT_SECONDS = 5.0
# Prometheus itself gives up after ten.
WAIT_SECONDS = 3.0
# Turns and requests to people, and the background tasks by state.
Rows = tuple[Backlog, dict[str, int]]

log = logging.getLogger(__name__)


@require_safe
@never_cache
async def show_metrics(request: HttpRequest) -> HttpResponse:
    if not _has_token(request):
        answer = HttpResponse("This needs METRICS_TOKEN.\n", "text/plain", 401)
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    readings = list(_list_readings(await _read_kept()))
    # With several workers this reads the files of all of them.
    text = await asyncio.to_thread(metrics.render, readings)
    return HttpResponse(text, metrics.CONTENT_TYPE)


def _has_token(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    is_right = constant_time_compare(given.strip(), settings.METRICS_TOKEN)
    return is_right and scheme.lower() == "bearer"


def _read_rows() -> Rows:
    return read_backlog(), count_tasks()


async def _read_kept() -> Rows | None:
    """Return what is not over, at most some seconds old; None if the database does not give it."""
    runtime, now = current_runtime(), time.monotonic()
    read_at, kept = runtime.backlog
    if kept is not None and now - read_at < KEPT_SECONDS:
        return cast(Rows, kept)
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            found = await in_database(_read_rows)
    except (Error, TimeoutError) as error:
        log.warning("The metrics have no numbers from the database: %r", error)
        return None
    runtime.backlog = (now, found)
    return found


def _list_readings(rows: Rows | None) -> Iterator[tuple[str, tuple[str, ...], float]]:
    yield "countersign_build_info", (VERSION, connection.vendor), 1
    yield "countersign_database_up", (), 0 if rows is None else 1
    if rows is None:
        return
    backlog, tasks = rows
    for state, count in backlog.turns.items():
        yield "countersign_turns", (state,), count
    yield "countersign_turns_abandoned", (), backlog.abandoned
    for state, count in tasks.items():
        yield "countersign_tasks", (state,), count
    for kind, count in backlog.requests.items():
        yield "countersign_open_requests", (kind,), count
