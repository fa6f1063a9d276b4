"""Safe operations. They change nothing at the service, so an operation that was contradicted by
what is remembered about the service is done once more."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.models import Service
from mcpconfig.session import endpoint
from mcpconfig.session.client import Connection, ConnectionOptions, connect
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

Answer = TypeVar("Answer")
Capability = Literal["resources", "prompts", "completions"]

_MISSING_MESSAGES = {
    "resources": gettext_lazy("The service offers no resources."),
    "prompts": gettext_lazy("The service offers no prompts."),
    "completions": gettext_lazy("The service offers no suggestions."),
}


async def run_safely(
    service: Service,
    acting: Acting | None,
    operation: str,
    act: Callable[[Connection], Awaitable[Answer]],
    options: ConnectionOptions | None = None,
) -> Answer:
    """Connect, act, disconnect; once more if the memory of the service proved wrong."""
    try:
        return await _run_once(service, acting, operation, act, options)
    except OperationError as error:
        if not error.contradicts_memory:
            raise
        return await _run_once(service, acting, operation, act, options)


async def _run_once(
    service: Service,
    acting: Acting | None,
    operation: str,
    act: Callable[[Connection], Awaitable[Answer]],
    options: ConnectionOptions | None,
) -> Answer:
    async with connect(service, acting, operation, options) as connection:
        answer = await act(connection)
    return answer


async def has_capability(service: Service, connection: Connection, capability: Capability) -> bool:
    """Return whether the service declares this capability.

    A remembered "no" may be out of date, and nothing would contradict it, because a service is
    asked nothing that it does not offer. So it counts as a wrong memory, and the operation begins
    again with a negotiation. A handshake is new each time and needs no second attempt.
    """
    if getattr(connection.capabilities, capability) is not None:
        return True
    if connection.was_remembered and connection.session.initialize_result is None:
        await endpoint.forget(service)
        raise _missing_capability_error(capability, contradicts_memory=True)
    return False


async def require_capability(
    service: Service, connection: Connection, capability: Capability
) -> None:
    """Raise OperationError unless the service declares this capability."""
    if not await has_capability(service, connection, capability):
        raise _missing_capability_error(capability)


def _missing_capability_error(
    capability: Capability, *, contradicts_memory: bool = False
) -> OperationError:
    return OperationError(
        kind="rpc_error",
        message=str(_MISSING_MESSAGES[capability]),
        hint=_("To see what it offers, test the connection."),
        is_definite=True,
        contradicts_memory=contradicts_memory,
    )
