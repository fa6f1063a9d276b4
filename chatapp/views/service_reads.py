"""Operations on services from a view: the answer or the error as a value."""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import async_to_sync

from mcpconfig.values.errors import OperationError

Answer = TypeVar("Answer")
Given = ParamSpec("Given")


def run_operation(
    operation: Callable[Given, Awaitable[Answer]], *given: Given.args, **named: Given.kwargs
) -> Answer | OperationError:
    """Run the operation and return its answer, or its error, which can be shown to a person."""
    try:
        return async_to_sync(operation)(*given, **named)
    except OperationError as error:
        return error
