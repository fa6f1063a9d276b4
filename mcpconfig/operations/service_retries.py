"""Retries: a service that failed is looked at again at its time, by whichever worker comes first.

A retry lists the service's tools, which changes nothing there. A tool call is never retried.
"""

import asyncio
import logging
from datetime import datetime, timedelta

from channels.db import database_sync_to_async
from django.db.models import F, Q
from django.utils import timezone

from . import ledger
from .acting import Acting
from .errors import OperationError, switched_off
from .models import Service
from .status import PASSING, store, wait_before

logger = logging.getLogger(__name__)

RETRY_SECONDS = 20.0
# By then a worker that took a retry has finished it or is dead.
CLAIM = timedelta(seconds=2 * RETRY_SECONDS)
AT_ONCE = 20


def due(now: datetime) -> list[Service]:
    """The services to look at again. Those that only a person can enter wait for his next turn."""
    for_persons = Q(authentication__in=Service.PERSONAL) | Q(
        authentication=Service.Authentication.HEADERS, credential__names_a_person=True
    )
    waiting = Service.objects.filter(
        is_enabled=True, next_retry_at__lte=now, retries__lt=F("most_retries")
    )
    return list(waiting.exclude(for_persons).order_by("next_retry_at")[:AT_ONCE])


async def retry(service: Service, acting: Acting | None = None) -> OperationError | None:
    """Look at the service again, unless somebody else does. How it failed, if it did."""
    if not await database_sync_to_async(_claim)(service):
        return None
    try:
        await ledger.fetch_tools(service, acting=acting, total_seconds=RETRY_SECONDS)
    except OperationError as error:
        logger.info("Retry %d of service %s failed: %s", service.retries, service.name, error.kind)
        counted = service.retries - 1 if _says_nothing(service, error) else service.retries
        await database_sync_to_async(_plan)(service, _next_after(service, error), counted)
        return error
    except Exception:
        await database_sync_to_async(_plan)(service, None, service.retries)
        raise
    return None


async def retry_now(service: Service, acting: Acting | None = None) -> OperationError | None:
    """A person wants it tried at once, whatever came before: the counting begins anew, and one try
    is made also where none is made by itself."""
    if not service.is_enabled:
        return switched_off()
    await store(service, retries=0, next_retry_at=timezone.now())
    return await retry(service, acting)


async def retry_due() -> None:
    """Look at all services whose time has come."""
    waiting = await database_sync_to_async(due)(timezone.now())
    outcomes = await asyncio.gather(
        *(retry(service) for service in waiting), return_exceptions=True
    )
    for service, outcome in zip(waiting, outcomes, strict=True):
        if isinstance(outcome, Exception):
            logger.error("Service %s could not be retried.", service.name, exc_info=outcome)


def _claim(service: Service) -> bool:
    """One conditional UPDATE, so that of two workers one goes on. Should that one die, the retry is
    taken up again when its claim has run out, and counts as another one."""
    until = timezone.now() + CLAIM
    mine = Service.objects.filter(
        pk=service.pk,
        url=service.url,
        is_enabled=True,
        retries=service.retries,
        next_retry_at=service.next_retry_at,
        next_retry_at__lte=timezone.now(),
    )
    if not mine.update(next_retry_at=until, retries=F("retries") + 1):
        return False
    service.next_retry_at, service.retries = until, service.retries + 1
    return True


def _next_after(service: Service, error: OperationError) -> datetime | None:
    """When to try again after a retry that failed; None leaves the rest to a person."""
    if _says_nothing(service, error):
        return timezone.now() + wait_before(service.retries, error)
    if error.kind not in PASSING or not service.reconnects:
        return None
    if service.retries >= service.most_retries:
        return None
    return timezone.now() + wait_before(service.retries + 1, error)


def _plan(service: Service, due_at: datetime | None, counted: int) -> None:
    """Give the claim back, unless it ran out and somebody else has it now."""
    mine = Service.objects.filter(
        pk=service.pk, retries=service.retries, next_retry_at=service.next_retry_at
    )
    if mine.update(next_retry_at=due_at, retries=counted):
        service.next_retry_at, service.retries = due_at, counted


def _says_nothing(service: Service, error: OperationError) -> bool:
    """A person without a sign-in was turned away, so nobody knows yet how the service does: the
    next person's turn finds out."""
    is_own = service.authentication in Service.PERSONAL
    return is_own and error.kind in ("sign_in_needed", "forbidden")
