"""How services do: what went well or wrong last, and when to look again after a failure."""

import logging
from datetime import timedelta
from typing import Any, get_args

from channels.db import database_sync_to_async
from django.db import Error
from django.utils import timezone

from .errors import Kind, OperationError
from .header_templates import Untold
from .models import Service

logger = logging.getLogger(__name__)

SUCCESS_NOTED_EVERY = timedelta(minutes=1)
FIRST_WAIT = timedelta(seconds=1)

LONGEST_WAIT = timedelta(hours=1)

# A person has to do something about these first.
_LASTING: frozenset[Kind] = frozenset(
    ("sign_in_needed", "forbidden", "too_large", "blocked_address", "rpc_error")
    + ("start_over", "configuration")
)
PASSING: frozenset[Kind] = frozenset(get_args(Kind)) - _LASTING
# Whatever was asked for, the service was not reached.
_UNREACHED: frozenset[Kind] = frozenset(
    ("refused", "not_found", "tls", "blocked_address", "configuration")
)
# Operations that fail only where the service as a whole does.
_TELLING = ("list_tools", "test_connection")


async def note_success(service: Service) -> None:
    """The service works. Written at most once a minute while nothing changes."""
    now = timezone.now()
    last = service.last_success_at
    has_failed = service.last_error is not None or service.next_retry_at is not None
    if has_failed or last is None or now - last > SUCCESS_NOTED_EVERY:
        await store(service, last_success_at=now, **service.forgotten_failure())


async def note_failure(
    service: Service, operation: str, error: OperationError, *, is_one_persons: bool
) -> None:
    """The service failed.

    A refusal in well-formed JSON-RPC is an answer, not a failure of it. What one person may not do
    (`is_one_persons`) or cannot say of himself is that person's affair. A tool call or a resource
    that came to nothing may be the tool's own fault: the service is looked at again before it
    counts as failing.
    """
    if error.kind == "rpc_error" or isinstance(error, Untold):
        return
    if is_one_persons and error.kind in ("sign_in_needed", "forbidden"):
        return
    is_of_service = operation in _TELLING or (error.kind in _UNREACHED and not error.was_sent)
    if not is_of_service and error.kind != "sign_in_needed":
        await _look_again(service, error, timedelta(0))
        return
    at = timezone.now().isoformat(timespec="seconds")
    seen = {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "at": at,
        "since": (service.last_error or {}).get("since", at),
    }
    await store(service, last_error=seen)
    await _look_again(service, error, wait_before(1, error))


def wait_before(retry: int, error: OperationError) -> timedelta:
    """1, 2, 4, 8, 16 seconds, or as long as the service asked for."""
    asked = timedelta(seconds=min(error.retry_after or 0, LONGEST_WAIT.total_seconds()))
    return max(FIRST_WAIT * (1 << (retry - 1)), asked)


async def _look_again(service: Service, error: OperationError, wait: timedelta) -> None:
    """Begin a series of retries, unless one is under way or over, or would be of no use."""
    if error.kind not in PASSING or not service.reconnects or not service.most_retries:
        return
    idle = Service.objects.filter(
        pk=service.pk, url=service.url, is_enabled=True, retries=0, next_retry_at=None
    )
    due = timezone.now() + wait
    if await database_sync_to_async(idle.update)(next_retry_at=due):
        service.next_retry_at = due


async def store(service: Service, **fields: Any) -> None:
    """Only these fields, and only while the service still has the URL they were learned from.

    Where it cannot be written, the operation goes on: its result is worth more.
    """
    for name, value in fields.items():
        setattr(service, name, value)
    stored = Service.objects.filter(pk=service.pk, url=service.url)
    try:
        await database_sync_to_async(stored.update)(**fields)
    except Error:
        logger.exception("What was learned about service %s was not kept.", service.name)
