"""Questions of services in the SDK's types: those of handshake-era services during a call or
instead of it, and the answers that modern services get with the next call."""

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
from django.conf import settings
from django.utils.translation import gettext as _
from mcp import MCPError
from mcp.client import ClientRequestContext

from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.questions import find_problems, parse_requests, unanswerable_error
from mcpconfig.values.results import Answer, InputRequest

logger = logging.getLogger(__name__)

OnQuestion = Callable[[InputRequest], Awaitable[Answer]]

_CANCEL = Answer(action="cancel")


class Elicitation:
    """The questions during one operation. Without `on_question` they are refused."""

    def __init__(self, on_question: OnQuestion | None) -> None:
        self._on_question = on_question
        self._scope: anyio.CancelScope | None = None
        self._asked = 0
        self._waiting = 0
        self._left = math.inf

    @property
    def can_ask(self) -> bool:
        return self._on_question is not None

    @contextmanager
    def use_deadline(self, scope: anyio.CancelScope) -> Iterator[None]:
        """Set the deadline that is paused while a person is asked."""
        self._scope = scope
        yield

    async def answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Callback of the SDK: return an answer, or an error for the service."""
        if self._on_question is None:
            return _build_refusal("No person is here to answer.")
        self._asked += 1
        if self._asked > settings.QUESTION_ROUNDS:
            return _build_refusal("These are too many questions for one call.")
        said = {"method": "elicitation/create", "params": params.model_dump(by_alias=True)}
        try:
            [request] = parse_requests({str(self._asked): said})
        except OperationError as error:
            return _build_refusal(error.message)
        return _build_result(await self._ask(self._on_question, request))

    async def _ask(self, on_question: OnQuestion, request: InputRequest) -> Answer:
        """Return the person's answer; a cancellation if it is late or does not fit the question."""
        answer = _CANCEL
        with self._pause_deadline(), anyio.move_on_after(LIMITS.question_seconds):
            answer = await on_question(request)
        problems = find_problems(request, answer.content) if answer.action == "accept" else {}
        if problems:
            logger.warning("An answer does not fit its question and is not sent: %s", problems)
            return _CANCEL
        return answer

    @contextmanager
    def _pause_deadline(self) -> Iterator[None]:
        """Pause the deadline from the first of several questions to the end of the last."""
        scope = self._scope
        if scope is None:
            yield
            return
        if self._waiting == 0:
            self._left, scope.deadline = scope.deadline - anyio.current_time(), math.inf
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                scope.deadline = anyio.current_time() + self._left


def parse_required_pages(error: MCPError) -> tuple[InputRequest, ...]:
    """Return the pages that a handshake-era service requires to be opened before it accepts a
    request; none if it refused for another reason. Raise OperationError if they cannot be shown to
    a person."""
    match error.data:
        case {"elicitations": [_, *_] as wanted} if error.code == types.URL_ELICITATION_REQUIRED:
            asked = dict(_parse_page(each) for each in wanted)
        case _:
            return ()
    if len(asked) < len(wanted):
        raise unanswerable_error(_("The service names the same page twice."))
    return parse_requests(asked)


def _parse_page(said: Any) -> tuple[str, dict[str, Any]]:
    match said:
        case {"elicitationId": str(key)}:
            return key, {"method": "elicitation/create", "params": {**said, "mode": "url"}}
    raise unanswerable_error(_("The service names a page in a way that can’t be read."))


def check_pages_opened(answers: Mapping[str, Answer]) -> None:
    """Raise OperationError unless the pages were opened; called before such a request is sent
    again."""
    if any(answer.action != "accept" for answer in answers.values()):
        raise OperationError(
            kind="rpc_error",
            message=_("The service needs you to open a page first, and that was declined."),
            hint=_("Run it again to be asked again."),
            was_sent=False,
            is_definite=True,
        )


def build_responses(answers: Mapping[str, Answer]) -> types.InputResponses:
    """Return the answers in the form that a modern service gets with the next call."""
    return {key: _build_result(answer) for key, answer in answers.items()}


def _build_result(answer: Answer) -> types.ElicitResult:
    content = answer.content if answer.action == "accept" else None
    return types.ElicitResult(action=answer.action, content=content)


def _build_refusal(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)
