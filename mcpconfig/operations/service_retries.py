"""Retries of failed services, each by one worker at its time. A retry lists the tools, which
changes nothing at the service. A tool call is never retried."""

import asyncio
import logging
from datetime import datetime, timedelta

from channels.db import database_sync_to_async
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from mcpconfig.models import Service
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.services.status import RETRYABLE, compute_retry_wait, store_fields
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError, disabled_error

logger = logging.getLogger(__name__)

RETRY_SECONDS = 20.0
# After this time a worker that claimed a retry has finished it or is dead.
CLAIM_DURATION = timedelta(seconds=2 * RETRY_SECONDS)
MAX_AT_ONCE = 20


def has_planned_retries() -> bool:
    """Whether a service is to be retried now or later."""
    return _filter_planned().filter(next_retry_at__isnull=False).exists()


def find_due_services(now: datetime) -> list[Service]:
    """Return the services to retry now."""
    due = _filter_planned().filter(next_retry_at__lte=now)
    return list(due.order_by("next_retry_at")[:MAX_AT_ONCE])


def _filter_planned() -> QuerySet[Service]:
    """Return the services that may be retried. Services that need a person's credentials wait for
    that person's next turn."""
    for_persons = Q(authentication__in=Service.PERSONAL) | Q(
        authentication=Service.Authentication.HEADERS, credential__names_a_person=True
    )
    enabled = Service.objects.filter(is_enabled=True, retries__lt=F("most_retries"))
    return enabled.exclude(for_persons)


async def retry(service: Service, acting: Acting | None = None) -> OperationError | None:
    """Retry the service unless another worker does. Return the failure, if any."""
    if not await database_sync_to_async(_claim)(service):
        return None
    try:
        await fetch_tools(service, acting=acting, total_seconds=RETRY_SECONDS)
    except OperationError as error:
        logger.info("Retry %d of service %s failed: %s", service.retries, service.name, error.kind)
        counted = service.retries - 1 if _is_inconclusive(service, error) else service.retries
        await database_sync_to_async(_release_claim)(
            service, _compute_next_retry(service, error), counted
        )
        return error
    except Exception:
        await database_sync_to_async(_release_claim)(service, None, service.retries)
        raise
    return None


async def retry_now(service: Service, acting: Acting | None = None) -> OperationError | None:
    """Retry at the request of a person: the count begins again, and one attempt is made even if
    automatic retries are off."""
    if not service.is_enabled:
        return disabled_error()
    await store_fields(service, retries=0, next_retry_at=timezone.now())
    return await retry(service, acting)


async def retry_due() -> None:
    """Retry all services that are due."""
    waiting = await database_sync_to_async(find_due_services)(timezone.now())
    outcomes = await asyncio.gather(
        *(retry(service) for service in waiting), return_exceptions=True
    )
    for service, outcome in zip(waiting, outcomes, strict=True):
        if isinstance(outcome, Exception):
            logger.error("Service %s could not be retried.", service.name, exc_info=outcome)


def _claim(service: Service) -> bool:
    """Claim the retry with one conditional UPDATE, so that one of two workers continues. If that
    one dies, the retry is due again when its claim ends, and counts as another one."""
    until = timezone.now() + CLAIM_DURATION
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


def _compute_next_retry(service: Service, error: OperationError) -> datetime | None:
    """Return the time of the next retry after a failed one; None if only a person retries."""
    if _is_inconclusive(service, error):
        return timezone.now() + compute_retry_wait(service.retries, error)
    if error.kind not in RETRYABLE or not service.reconnects:
        return None
    if service.retries >= service.most_retries:
        return None
    return timezone.now() + compute_retry_wait(service.retries + 1, error)


def _release_claim(service: Service, due_at: datetime | None, counted: int) -> None:
    """Release the claim, unless it has ended and another worker has it."""
    mine = Service.objects.filter(
        pk=service.pk, retries=service.retries, next_retry_at=service.next_retry_at
    )
    if mine.update(next_retry_at=due_at, retries=counted):
        service.next_retry_at, service.retries = due_at, counted


def _is_inconclusive(service: Service, error: OperationError) -> bool:
    """A person without a sign-in was refused, so the health of the service is unknown. The next
    person's turn shows it."""
    is_own = service.authentication in Service.PERSONAL
    return is_own and error.kind in ("sign_in_needed", "forbidden")
