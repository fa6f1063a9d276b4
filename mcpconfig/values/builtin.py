"""Services that this application serves itself: their names and their current addresses."""

from .errors import OperationError
from .hooks import BuiltinAddress, current_hooks

PREFIX = "builtin:"


def is_builtin(url: str) -> bool:
    return url.startswith(PREFIX)


async def resolve(name: str) -> BuiltinAddress:
    """Return the current address of `builtin:NAME`; raise OperationError if this installation does
    not serve it."""
    address = current_hooks().builtin_addresses.get(name)
    if address is None:
        raise OperationError(
            kind="not_found",
            message=f"This installation has no built-in service called “{name}”.",
            hint="Disable the service, or give it the URL of a server.",
            was_sent=False,
            is_definite=True,
        )
    return await address()
