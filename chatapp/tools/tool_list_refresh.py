"""Whether the tools of a service can be used now; where what is stored is too old, its own word."""

import asyncio
import logging

from channels.db import database_sync_to_async
from django.utils import timezone

from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.ledger import fresh_tools
from mcpconfig.models import Service
from mcpconfig.retries import retry

logger = logging.getLogger(__name__)

LISTING_SECONDS = 20.0


def is_fresh(service: Service) -> bool:
    """Whether what is stored of its tools may be used without a question to anybody."""
    until = service.tools_fresh_until
    return service.last_error is None and until is not None and until > timezone.now()


async def reason_against(service: Service, acting: Acting) -> str:
    """Why its tools cannot be used now, or nothing. Its list is fetched where it is too old, so
    that what is stored then is its own word."""
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            return await _asked(service, acting)
    except OperationError as error:
        if _waits_for_person(service, error) and await _is_known(service):
            return ""
        return reason_of(error.kind, error.message)
    except TimeoutError:
        return "The service did not answer in time."
    except Exception:
        logger.exception("The tools of service %s could not be listed.", service.name)
        return "Listing them failed."


async def _asked(service: Service, acting: Acting) -> str:
    """A service that fails is left out, so that no call runs into it. One that only a person can
    enter is looked at again here, when its time has come: the sweep cannot do it."""
    if service.last_error is not None:
        if service.next_retry_at and service.next_retry_at <= timezone.now():
            await retry(service, acting)
        if service.last_error is not None:
            error = service.last_error
            return reason_of(error.get("kind", ""), error.get("message", ""))
    await fresh_tools(service, acting=acting)
    return ""


async def _is_known(service: Service) -> bool:
    current = service.definitions.filter(is_current=True)
    return await database_sync_to_async(current.exists)()


def _waits_for_person(service: Service, error: OperationError) -> bool:
    """Whether this person has only to sign in. The tools are offered as they are known, because
    the first call of one asks for the sign-in."""
    is_own = service.authentication in Service.PERSONAL
    return is_own and error.kind == "sign_in_needed"


def reason_of(kind: str, message: str) -> str:
    """Our own sentence: what a service said itself must not get among the instructions."""
    if kind == "rpc_error":
        return "The service refused to list them."
    if kind == "configuration":
        return "An admin has to look at the service's settings."
    return message
