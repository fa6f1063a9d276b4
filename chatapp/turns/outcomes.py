"""What came of a call, as the ledger keeps it."""

from dataclasses import dataclass
from typing import Any

from chatapp.models import ToolCall
from mcpconfig.errors import OperationError
from mcpconfig.results import ToolResult, storable


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A state with its result or its error."""

    state: ToolCall.State
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


def shown(error: OperationError) -> dict[str, Any]:
    return {"kind": error.kind, "message": error.message, "hint": error.hint}


def stored_result(result: ToolResult) -> dict[str, Any]:
    stored: dict[str, Any] = storable(
        {
            "content": result.content,
            "structured": result.structured,
            "is_error": result.is_error,
            "was_cut": result.was_cut,
        }
    )
    return stored
