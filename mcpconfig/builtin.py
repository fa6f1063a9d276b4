"""Services that this application serves itself: their names, and where they listen now."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .errors import OperationError

PREFIX = "builtin:"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinAddress:
    """Where a built-in service listens on this machine, and the token that opens it."""

    url: str
    bearer: str


_addresses: dict[str, Callable[[], Awaitable[BuiltinAddress]]] = {}


def register(name: str, address: Callable[[], Awaitable[BuiltinAddress]]) -> None:
    """Serve `builtin:NAME`. `address` is asked before each operation and may start the listener."""
    _addresses[name] = address


def is_builtin(url: str) -> bool:
    return url.startswith(PREFIX)


async def resolve(name: str) -> BuiltinAddress:
    """Where `builtin:NAME` listens; an OperationError when this installation does not serve it."""
    address = _addresses.get(name)
    if address is None:
        raise OperationError(
            kind="not_found",
            message=f"This installation has no built-in service called “{name}”.",
            hint="Disable the service, or give it the URL of a server.",
            was_sent=False,
            is_definite=True,
        )
    return await address()
