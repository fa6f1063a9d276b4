"""Safe operations: they change nothing at the service, so one that met a wrong memory of how the
service is reached is done once more with the memory gone."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from . import facts
from .acting import Acting
from .client import Connection, Manner, connect
from .errors import OperationError
from .models import Service

Answer = TypeVar("Answer")
Capability = Literal["resources", "prompts", "completions"]

_LACKING = {
    "resources": "The service offers no resources.",
    "prompts": "The service offers no prompts.",
    "completions": "The service does not propose values.",
}


async def ask(
    service: Service,
    acting: Acting | None,
    operation: str,
    act: Callable[[Connection], Awaitable[Answer]],
    manner: Manner | None = None,
) -> Answer:
    """Connect, act, disconnect; again if what was remembered proved wrong."""
    try:
        return await _ask_once(service, acting, operation, act, manner)
    except OperationError as error:
        if not error.contradicts_memory:
            raise
        return await _ask_once(service, acting, operation, act, manner)


async def _ask_once(
    service: Service,
    acting: Acting | None,
    operation: str,
    act: Callable[[Connection], Awaitable[Answer]],
    manner: Manner | None,
) -> Answer:
    async with connect(service, acting, operation, manner) as connection:
        answer = await act(connection)
    return answer


async def offers(service: Service, connection: Connection, capability: Capability) -> bool:
    """Whether the service declares this.

    A remembered "no" may be out of date: nothing would ever contradict it, because nothing is asked
    of a service that does not offer it. So it counts as a wrong memory, and the operation begins
    again with a question to the service. A handshake is new each time and needs no second look.
    """
    if getattr(connection.client.server_capabilities, capability) is not None:
        return True
    if connection.was_remembered and connection.client.session.initialize_result is None:
        await facts.forget(service)
        raise _lacking(capability, contradicts_memory=True)
    return False


async def demand(service: Service, connection: Connection, capability: Capability) -> None:
    """As `offers`, where the operation makes no sense without it."""
    if not await offers(service, connection, capability):
        raise _lacking(capability)


def _lacking(capability: Capability, *, contradicts_memory: bool = False) -> OperationError:
    return OperationError(
        kind="rpc_error",
        message=_LACKING[capability],
        hint="See what it offers: test the connection.",
        is_definite=True,
        contradicts_memory=contradicts_memory,
    )
