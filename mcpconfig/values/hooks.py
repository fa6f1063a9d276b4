"""Hooks: the functions that the application around `mcpconfig` gives to it.

`mcpconfig` imports nothing of the application. The application opens one `Hooks` object when Django
starts (`ChatAppConfig.ready`), and a test opens another with `using_hooks`. Without one, no service
is built in, tools have no id, and nothing listens.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinAddress:
    """Where a built-in service listens on this machine, and the token that opens it."""

    url: str
    bearer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDescription:
    """The tool id that models see, and the tool's risk with its reasons."""

    id: str = ""
    level: str = ""
    reasons: list[str] = field(default_factory=list)


def describe_nothing(definition: Any, _setting: Any) -> ToolDescription:
    """Describe a tool where no application names or judges it."""
    return ToolDescription()


def get_no_trace_context() -> Mapping[str, str]:
    """Return no trace context, where no application traces."""
    return {}


def observe_nothing(service: Any, operation: str, wire: Any) -> AbstractContextManager[None]:
    """Let an operation run where no application measures it."""
    return nullcontext()


def count_nothing(reason: str) -> None:
    """Ignore a connection that was refused, where no application counts."""


def log_nothing(client: Any) -> None:
    """Ignore a registration that an admin deleted, where no application keeps a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    # Returns the address of `builtin:NAME`, by name. Called before each operation; may start the
    # service.
    builtin_addresses: Mapping[str, Callable[[], Awaitable[BuiltinAddress]]] = field(
        default_factory=dict
    )
    # Describes a `ToolDefinition` with its `ToolSetting`, if it has one.
    describe_tool: Callable[[Any, Any], ToolDescription] = describe_nothing
    # Yield stored secrets that are in no `SealedField`, for `rotate_keys` and `doctor`.
    further_secrets: tuple[Callable[[], Iterator[Any]], ...] = ()
    # Called after each sign-in with the `Service` and the id of the person (None: everybody).
    sign_in_listeners: tuple[Callable[[Any, int | None], Awaitable[None]], ...] = ()
    # Returns the W3C trace context of what happens now, such as {"traceparent": …}, or {}.
    trace_context: Callable[[], Mapping[str, str]] = get_no_trace_context
    # Encloses each operation: called with the `Service`, the operation's name and its `Wire`.
    observe_operation: Callable[[Any, str, Any], AbstractContextManager[None]] = observe_nothing
    # Called with "address" or "url" when a connection is not opened because of it.
    count_refused_connection: Callable[[str], None] = count_nothing
    # Called with the `OAuthClient` that an admin deletes, in the transaction that deletes it.
    log_forgotten_registration: Callable[[Any], None] = log_nothing


async def announce_sign_in(service: Any, person_id: int | None) -> None:
    """Call the listeners after a sign-in to `service`; None as the person stands for everybody."""
    for listener in current_hooks().sign_in_listeners:
        await listener(service, person_id)


_current = Hooks()


def current_hooks() -> Hooks:
    return _current


def open_hooks(hooks: Hooks) -> None:
    """Use these hooks until the process ends."""
    global _current
    _current = hooks


@contextmanager
def using_hooks(hooks: Hooks) -> Iterator[None]:
    """Use these hooks inside the block."""
    global _current
    previous, _current = _current, hooks
    try:
        yield
    finally:
        _current = previous
