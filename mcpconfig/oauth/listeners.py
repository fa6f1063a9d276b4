"""Who wants to know that somebody has signed in to a service."""

from collections.abc import Awaitable, Callable

from mcpconfig.models import Service

SignedIn = Callable[[Service, int | None], Awaitable[None]]

_listeners: list[SignedIn] = []


def when_signed_in(listener: SignedIn) -> None:
    """Call this with the service and the person (None: everybody) after each sign-in."""
    if listener not in _listeners:
        _listeners.append(listener)


async def signed_in(service: Service, person_id: int | None) -> None:
    """A sign-in is there: whatever waits for it may go on."""
    for listener in _listeners:
        await listener(service, person_id)
