"""The status of a service: its last success and failure, and the time of the next retry."""

import logging
from datetime import timedelta
from typing import Any, get_args

from channels.db import database_sync_to_async
from django.db import Error
from django.utils import timezone

from mcpconfig.models import Service
from mcpconfig.secrets.header_templates import HeaderTemplateError
from mcpconfig.values.errors import Kind, OperationError

logger = logging.getLogger(__name__)

SUCCESS_INTERVAL = timedelta(seconds=20)
FIRST_RETRY_WAIT = timedelta(seconds=1)
MAX_RETRY_WAIT = timedelta(hours=1)

# Failures that a retry cannot fix, because a person has to act first.
_NEEDS_A_PERSON: frozenset[Kind] = frozenset(
    ("sign_in_needed", "forbidden", "too_large", "blocked_address", "rpc_error")
    + ("start_over", "configuration")
)
RETRYABLE: frozenset[Kind] = frozenset(get_args(Kind)) - _NEEDS_A_PERSON
# Failures in which the service was not reached.
_UNREACHED: frozenset[Kind] = frozenset(
    ("refused", "not_found", "tls", "blocked_address", "configuration")
)
# Operations that fail only if the whole service fails.
_WHOLE_SERVICE_OPERATIONS = ("list_tools", "test_connection")


async def record_success(service: Service) -> None:
    """Record that the service works. Without a change, write at most every 20 seconds."""
    now = timezone.now()
    last = service.last_success_at
    has_failed = service.last_error is not None or service.next_retry_at is not None
    if has_failed or last is None or now - last > SUCCESS_INTERVAL:
        await store_fields(service, last_success_at=now, **service.forgotten_failure())


async def record_failure(
    service: Service, operation: str, error: OperationError, *, is_one_persons: bool
) -> None:
    """Record a failure of the service, unless the error does not concern the whole service.

    A JSON-RPC error is a valid response. A refusal with the credentials of one person
    (`is_one_persons`), or a header template without a value for that person, concerns only that
    person. A failed tool call or resource may be the fault of the tool, so the service is tried
    again before it counts as failing.
    """
    if error.kind == "rpc_error" or isinstance(error, HeaderTemplateError):
        return
    if is_one_persons and error.kind in ("sign_in_needed", "forbidden"):
        return
    is_whole_service = operation in _WHOLE_SERVICE_OPERATIONS or (
        error.kind in _UNREACHED and not error.was_sent
    )
    if not is_whole_service and error.kind != "sign_in_needed":
        await _schedule_retry(service, error, timedelta(0))
        return
    at = timezone.now().isoformat(timespec="seconds")
    failure = {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "at": at,
        "since": (service.last_error or {}).get("since", at),
    }
    await store_fields(service, last_error=failure, last_failure=failure)
    await _schedule_retry(service, error, compute_retry_wait(1, error))


def compute_retry_wait(retry: int, error: OperationError) -> timedelta:
    """Return 1, 2, 4, 8, 16 seconds and so on, or the time that the service asked for if longer."""
    requested = timedelta(seconds=min(error.retry_after or 0, MAX_RETRY_WAIT.total_seconds()))
    return max(FIRST_RETRY_WAIT * (1 << (retry - 1)), requested)


async def _schedule_retry(service: Service, error: OperationError, wait: timedelta) -> None:
    """Start a series of retries, unless one has started already or a retry cannot help."""
    is_lasting = service.pk is not None and service.reconnects and service.most_retries
    if error.kind not in RETRYABLE or not is_lasting:
        return
    idle = Service.objects.filter(
        pk=service.pk, url=service.url, is_enabled=True, retries=0, next_retry_at=None
    )
    due = timezone.now() + wait
    try:
        if await database_sync_to_async(idle.update)(next_retry_at=due):
            service.next_retry_at = due
    except Error:  # must not replace the error of the operation
        logger.exception("The next retry of service %s was not stored.", service.name)


async def mark_tools_stale(service: Service) -> None:
    """Have the tools listed again before their next use, because the service said that they have
    changed."""
    if service.tools_fresh_until is not None:
        await store_fields(service, tools_fresh_until=timezone.now())


async def store_fields(service: Service, **fields: Any) -> None:
    """Store these fields, if the service still has the URL from which they were learned.

    An error of the database is only logged, so that the result of the operation is not lost.
    """
    for name, value in fields.items():
        setattr(service, name, value)
    if service.pk is None:  # it is only checked
        return
    stored = Service.objects.filter(pk=service.pk, url=service.url)
    try:
        await database_sync_to_async(stored.update)(**fields)
    except Error:
        logger.exception("What was learned about service %s was not kept.", service.name)
