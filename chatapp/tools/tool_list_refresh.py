"""Whether the tools of a service can be used now, and the refresh of a stored list that is too
old."""

import asyncio
import logging

from channels.db import database_sync_to_async
from django.utils import timezone
from django.utils.translation import gettext as _

from mcpconfig.models import Service
from mcpconfig.operations.service_retries import retry
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

logger = logging.getLogger(__name__)

LISTING_SECONDS = 20.0


def is_fresh(service: Service) -> bool:
    """Return whether the stored tools may be used without a request to the service."""
    until = service.tools_fresh_until
    return service.last_error is None and until is not None and until > timezone.now()


async def explain_unusable(service: Service, acting: Acting) -> str:
    """Return why the service's tools cannot be used now, or an empty string. A stored list that
    is too old is fetched again first."""
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            return await _refresh(service, acting)
    except OperationError as error:
        if _waits_for_person(service, error) and await _is_known(service):
            return ""
        return describe_error(error.kind, error.message)
    except TimeoutError:
        return _("The service did not respond in time.")
    except Exception:
        logger.exception("The tools of service %s could not be listed.", service.name)
        return _("The list of its tools could not be read.")


async def _refresh(service: Service, acting: Acting) -> str:
    """Refresh the stored list, and return why the service cannot be used, or an empty string.

    A service that failed is left out, so that no call is sent to it. A retry that needs this
    person's sign-in is done here, because the sweep cannot do it.
    """
    if service.last_error is not None:
        if service.next_retry_at and service.next_retry_at <= timezone.now():
            await retry(service, acting)
        if service.last_error is not None:
            error = service.last_error
            return describe_error(error.get("kind", ""), error.get("message", ""))
    await load_fresh_tools(service, acting=acting)
    return ""


async def _is_known(service: Service) -> bool:
    current = service.definitions.filter(is_current=True)
    return await database_sync_to_async(current.exists)()


def _waits_for_person(service: Service, error: OperationError) -> bool:
    """Return whether only this person's sign-in is missing. The known tools are then offered,
    and the first call of one asks for the sign-in."""
    is_own = service.authentication in Service.PERSONAL
    return is_own and error.kind == "sign_in_needed"


def describe_error(kind: str, message: str) -> str:
    """Return a sentence without the service's own text, which must not reach the system prompt."""
    if kind == "rpc_error":
        return _("The service refused to list its tools.")
    if kind == "configuration":
        return _("An admin must check the settings of the service.")
    return message
