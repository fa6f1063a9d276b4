"""Checks of the messages of a service before the SDK reads them. Each is noted for the trace."""

from typing import Any

import mcp_types as types
from django.utils.translation import gettext as _

from mcpconfig.net.wire import ServiceMessage, Wire, too_many_requests_error
from mcpconfig.values.errors import OperationError, malformed_answer_error
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.questions import parse_requests
from mcpconfig.values.results import build_withheld_content, describe_entry_limit

# The SDK treats any other type as complete, although it may mean that the work is not done.
_RESULT_TYPES = ("complete", "input_required", "task")


class MessageCheck:
    """Ends the operation at a message that cannot be right.

    The SDK drops such messages and waits for another one until the deadline. It checks the contents
    of answers itself. Notifications and requests that it does not understand do no harm and are
    only noted.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._asked_back = 0

    def check(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        """Return the message as it may be read."""
        if not self._wire.note_message(_describe_message(message)):
            raise self._wire.end(malformed_answer_error())
        match message:
            case types.JSONRPCNotification(method="notifications/tools/list_changed"):
                self._wire.tools_changed = True
            case types.JSONRPCRequest():
                self._asked_back += 1
            case types.JSONRPCResponse(result=result) if _has_too_many_entries(result):
                return self._withhold_content(message)
            case types.JSONRPCResponse(result={"resultType": kind}) if kind not in _RESULT_TYPES:
                raise self._wire.end(malformed_answer_error())
            case types.JSONRPCResponse(result={"resultType": "input_required", **said}):
                self._check_questions(said.get("inputRequests"))
            case types.JSONRPCResponse(result=result):
                # An answer without a type is complete; the SDK requires the type.
                result.setdefault("resultType", "complete")
        if self._asked_back > LIMITS.asked_back:
            raise self._wire.end(too_many_requests_error())
        return message

    def _withhold_content(self, answer: types.JSONRPCResponse) -> types.JSONRPCResponse:
        """Return the answer of a finished tool call without its content: it says that the tool has
        run, and only its content is too large."""
        if not (self._wire.is_call(str(answer.id)) and _is_complete(answer.result)):
            raise self._wire.end(_too_many_entries_error())
        is_error = bool(answer.result.get("isError"))
        content = build_withheld_content(is_error=is_error)
        kept = {"content": content, "isError": is_error, "resultType": "complete"}
        return answer.model_copy(update={"result": kept})

    def _check_questions(self, asked: Any) -> None:
        """The SDK treats an unknown kind of question as a malformed answer, which would leave the
        outcome unknown. A question says that the call has not run to its end."""
        try:
            parse_requests(asked)
        except OperationError as error:
            raise self._wire.end(error) from error


def _describe_message(message: types.JSONRPCMessage) -> ServiceMessage:
    match message:
        case types.JSONRPCRequest():
            return ServiceMessage(
                kind="request", method=message.method[:100], id=str(message.id)[:100]
            )
        case types.JSONRPCNotification():
            return ServiceMessage(kind="notification", method=message.method[:100])
        case types.JSONRPCError():
            return ServiceMessage(kind="error", id=str(message.id)[:100])
    return ServiceMessage(kind="response", id=str(message.id)[:100])


def _has_too_many_entries(result: dict[str, Any]) -> bool:
    """Each entry of a list becomes an object that is validated; invalid ones cost most."""
    return any(
        isinstance(value, list) and len(value) > LIMITS.entries_at_once for value in result.values()
    )


def _is_complete(result: dict[str, Any]) -> bool:
    is_complete = result.get("resultType", "complete") == "complete"
    return is_complete and isinstance(result.get("content"), list)


def _too_many_entries_error() -> OperationError:
    return OperationError(
        kind="too_large",
        message=_("The service sent %(bound)s in one response.")
        % {"bound": describe_entry_limit()},
        hint=_("Ask for less at once."),
    )
