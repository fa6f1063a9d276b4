"""One process asks for the next token of a row, while the others wait for what it brings."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import anyio
from channels.db import database_sync_to_async
from django.db.models import DateTimeField, ExpressionWrapper, Q
from django.db.models.functions import Now

from mcpconfig.models import CompanySignIn, OAuthGrant

# Longer than a renewal can take.
LEASE_SECONDS = 40.0
LOOK_EVERY_SECONDS = 0.1

logger = logging.getLogger(__name__)

Row = TypeVar("Row", OAuthGrant, CompanySignIn)

_renewals: set[asyncio.Task[None]] = set()


async def renewed(
    row: Row,
    renew: Callable[[Row, str], Coroutine[Any, Any, None]],
    again: Callable[[], Awaitable[Row]],
) -> Row:
    """The row with its next token: asked for (`renew`, with the lease) by whoever gets the lease,
    waited for by everybody else. `again` reads the row anew."""
    seen = row.version
    while row.version == seen:
        lease = uuid.uuid4().hex
        if await database_sync_to_async(_take)(row, lease):
            await _to_its_end(renew(row, lease))
        else:
            await anyio.sleep(LOOK_EVERY_SECONDS)
        row = await again()
    return row


async def _to_its_end(renewal: Coroutine[Any, Any, None]) -> None:
    """Wait for a renewal, and let it go on alone if the caller gives up: by then the server may
    have counted the old refresh token as used, and the new one must not be lost."""
    task = asyncio.create_task(renewal)
    _renewals.add(task)
    task.add_done_callback(_forget)
    await asyncio.shield(task)


def _forget(task: asyncio.Task[None]) -> None:
    _renewals.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.info("A sign-in was not renewed: %s", task.exception())


def _take(row: OAuthGrant | CompanySignIn, lease: str) -> bool:
    """Take the right to renew this version. Times are the database's."""
    free = Q(lease_until=None) | Q(lease_until__lt=Now())
    until = ExpressionWrapper(
        Now() + timedelta(seconds=LEASE_SECONDS), output_field=DateTimeField()
    )
    rows = type(row)._default_manager.filter(free, pk=row.pk, version=row.version, is_dead=False)
    return bool(rows.update(lease=lease, lease_until=until))
