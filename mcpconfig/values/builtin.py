"""Services that this application serves itself: their names and their current addresses."""

from django.utils.translation import gettext as _

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
            message=_("There is no built-in service “%(name)s” here.") % {"name": name},
            hint=_("Disable the service, or give it a server’s URL."),
            was_sent=False,
            is_definite=True,
        )
    return await address()
