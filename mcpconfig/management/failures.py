"""Failures that end a command, and exit codes. They work without settings, which may be invalid."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from mcpconfig.values.errors import OperationError

FAILED = 1
WAITS = 3
# The exit codes that shells use after a signal: 128 + SIGINT and 128 + SIGPIPE.
INTERRUPTED = 130
OUTPUT_CLOSED = 141

TRACEBACK_HINT = "Run it again with --traceback to see where, and report it to the developers."


class Failure(CommandError):
    """A command failed. The message and the hint are shown. `value` is printed with `--json`."""

    def __init__(
        self, kind: str, message: str, hint: str = "", *, value: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{kind}: {message}" + (f"\n  {hint}" if hint else ""))
        self.kind, self.message, self.hint = kind, message, hint
        self.value = value or {"error": {"kind": kind, "message": message, "hint": hint}}


def to_failure(error: Exception) -> Failure:
    """Return the failure for any exception."""
    match error:
        case Failure():
            return error
        case OperationError():
            return Failure(error.kind, error.message, error.hint)
        case CommandError():
            return Failure("failed", str(error))
        case ImproperlyConfigured():
            return Failure("configuration", get_first_line(error), "See docs/configuration.md.")
        case OSError() if error.filename is not None:
            hint = "Check that it exists, and that this user may read and write it."
            return Failure("files", f"{error.strerror}: {error.filename}", hint)
    return Failure("internal", f"{type(error).__name__}: {get_first_line(error)}", TRACEBACK_HINT)


def get_first_line(error: Exception) -> str:
    """Return the first line of the message. Database drivers add details in further lines."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].strip()
