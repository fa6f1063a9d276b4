"""Operations on services from a page: each ends as a value, what was asked for or why it failed."""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import async_to_sync

from mcpconfig.errors import OperationError

Answer = TypeVar("Answer")
Given = ParamSpec("Given")


def answer_of(
    operation: Callable[Given, Awaitable[Answer]], *given: Given.args, **named: Given.kwargs
) -> Answer | OperationError:
    """The answer of the operation, or its failure, which is fit to be shown."""
    try:
        return async_to_sync(operation)(*given, **named)
    except OperationError as error:
        return error
