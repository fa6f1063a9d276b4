"""What ends a command: kind, sentence and hint. Needs no settings, for those may be at fault."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from mcpconfig.errors import OperationError

FAILED = 1
WAITS = 3
# What a shell makes of a program that a signal ended: 128 and SIGINT, 128 and SIGPIPE.
INTERRUPTED = 130
UNHEARD = 141

WITH_TRACE = "Run it again with --traceback to see where, and tell whoever maintains this program."


class Failure(CommandError):
    """A command failed; the text is fit to be shown. `value` is what `--json` prints of it."""

    def __init__(
        self, kind: str, message: str, hint: str = "", *, value: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{kind}: {message}" + (f"\n  {hint}" if hint else ""))
        self.kind, self.message, self.hint = kind, message, hint
        self.value = value or {"error": {"kind": kind, "message": message, "hint": hint}}


def failure_of(error: Exception) -> Failure:
    """The failure that an exception means, whatever it is."""
    match error:
        case Failure():
            return error
        case OperationError():
            return Failure(error.kind, error.message, error.hint)
        case CommandError():
            return Failure("failed", str(error))
        case ImproperlyConfigured():
            return Failure("configuration", one_line(error), "See docs/configuration.md.")
        case OSError() if error.filename is not None:
            hint = "Check that it is there, and that this user may read and write it."
            return Failure("files", f"{error.strerror}: {error.filename}", hint)
    return Failure("internal", f"{type(error).__name__}: {one_line(error)}", WITH_TRACE)


def one_line(error: Exception) -> str:
    """Drivers answer in several lines; the first says what it is."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].strip()
