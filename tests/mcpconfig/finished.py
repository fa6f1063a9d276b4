"""Calls that nothing keeps from their end."""

from typing import Any

from mcpconfig import operations
from mcpconfig.results import CallOutcome


async def call_tool(*call: Any, **how: Any) -> CallOutcome:
    """The operation, of which a question or a long task would be a surprise."""
    outcome = await operations.call_tool(*call, **how)
    assert isinstance(outcome, CallOutcome), outcome
    return outcome
