"""A lock on a row, so that one process renews its token and the others wait for the result."""

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

# Longer than a renewal takes.
LEASE_SECONDS = 40.0
POLL_SECONDS = 0.1

logger = logging.getLogger(__name__)

Row = TypeVar("Row", OAuthGrant, CompanySignIn)

_renewals: set[asyncio.Task[None]] = set()


async def renew_once(
    row: Row,
    renew: Callable[[Row, str], Coroutine[Any, Any, None]],
    again: Callable[[], Awaitable[Row]],
) -> Row:
    """Return the row with its next token. The holder of the lease requests it (`renew`, with the
    lease), all others wait. `again` reads the row from the database."""
    seen = row.version
    while row.version == seen:
        lease = uuid.uuid4().hex
        if await database_sync_to_async(_claim_lease)(row, lease):
            await _finish_renewal(renew(row, lease))
        else:
            await anyio.sleep(POLL_SECONDS)
        row = await again()
    return row


async def _finish_renewal(renewal: Coroutine[Any, Any, None]) -> None:
    """Wait for a renewal, and let it finish alone if the caller is cancelled: the server may
    already count the old refresh token as used, and the new one must not be lost."""
    task = asyncio.create_task(renewal)
    _renewals.add(task)
    task.add_done_callback(_discard_renewal)
    await asyncio.shield(task)


def _discard_renewal(task: asyncio.Task[None]) -> None:
    _renewals.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.info("A sign-in was not renewed: %s", task.exception())


def _claim_lease(row: OAuthGrant | CompanySignIn, lease: str) -> bool:
    """Take the right to renew this version. Times are the database's."""
    free = Q(lease_until=None) | Q(lease_until__lt=Now())
    until = ExpressionWrapper(
        Now() + timedelta(seconds=LEASE_SECONDS), output_field=DateTimeField()
    )
    rows = type(row)._default_manager.filter(free, pk=row.pk, version=row.version, is_dead=False)
    return bool(rows.update(lease=lease, lease_until=until))
