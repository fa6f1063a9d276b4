"""Calls that must finish."""

from typing import Any

from mcpconfig.operations import tools
from mcpconfig.values.results import CallOutcome


async def call_tool(*call: Any, **how: Any) -> CallOutcome:
    """Call the tool; fail on a question or a long task."""
    outcome = await tools.call_tool(*call, **how)
    assert isinstance(outcome, CallOutcome), outcome
    return outcome
