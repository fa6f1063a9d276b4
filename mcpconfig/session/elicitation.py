"""Questions in the words of the SDK: what handshake-era services ask in the middle of a call, while
the clock of the operation stands still, or instead of taking it; and the answers that modern ones
get with the next call."""

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
from django.conf import settings
from mcp import MCPError
from mcp.client import ClientRequestContext

from .errors import OperationError
from .limits import LIMITS
from .questions import problems_of, requests_of, unanswerable
from .results import Answer, InputRequest

logger = logging.getLogger(__name__)

OnQuestion = Callable[[InputRequest], Awaitable[Answer]]

_CANCEL = Answer(action="cancel")


class Elicitation:
    """What one operation is asked while it runs. Without anybody who answers, the answer is no."""

    def __init__(self, on_question: OnQuestion | None) -> None:
        self._on_question = on_question
        self._scope: anyio.CancelScope | None = None
        self._asked = 0
        self._waiting = 0
        self._left = math.inf

    @property
    def may_wait(self) -> bool:
        return self._on_question is not None

    @contextmanager
    def pausing(self, scope: anyio.CancelScope) -> Iterator[None]:
        """The deadline that stands still while a person is asked."""
        self._scope = scope
        yield

    async def answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """For the SDK: an answer, or an error that the service hears, and then does as it likes."""
        if self._on_question is None:
            return _refused("Nobody is here to answer.")
        self._asked += 1
        if self._asked > settings.MCP_QUESTION_ROUNDS:
            return _refused("That is more than anybody is asked in one call.")
        said = {"method": "elicitation/create", "params": params.model_dump(by_alias=True)}
        try:
            [request] = requests_of({str(self._asked): said})
        except OperationError as error:
            return _refused(error.message)
        return _result(await self._ask(self._on_question, request))

    async def _ask(self, on_question: OnQuestion, request: InputRequest) -> Answer:
        """What a person answers, in time and to what was asked; otherwise that nobody did."""
        answer = _CANCEL
        with self._paused(), anyio.move_on_after(LIMITS.question_seconds):
            answer = await on_question(request)
        problems = problems_of(request, answer.content) if answer.action == "accept" else {}
        if problems:
            logger.warning("An answer does not fit its question and is not sent: %s", problems)
            return _CANCEL
        return answer

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """The clock stands still from the first of several questions to the end of the last."""
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


def pages_first(error: MCPError) -> tuple[InputRequest, ...]:
    """The pages that a handshake-era service wants opened before it takes a request at all; none,
    if it refused for another reason. An OperationError, if they cannot be put to anybody."""
    match error.data:
        case {"elicitations": [_, *_] as wanted} if error.code == types.URL_ELICITATION_REQUIRED:
            asked = dict(_page(each) for each in wanted)
        case _:
            return ()
    if len(asked) < len(wanted):
        raise unanswerable("It names two pages alike.")
    return requests_of(asked)


def _page(said: Any) -> tuple[str, dict[str, Any]]:
    match said:
        case {"elicitationId": str(key)}:
            return key, {"method": "elicitation/create", "params": {**said, "mode": "url"}}
    raise unanswerable("It names a page in a way that cannot be read.")


def demand_visits(answers: Mapping[str, Answer]) -> None:
    """Before such a request is sent again: its pages must have been opened."""
    if any(answer.action != "accept" for answer in answers.values()):
        raise OperationError(
            kind="rpc_error",
            message="The service wants a page opened first, and that was declined.",
            hint="Run it again to be asked once more.",
            was_sent=False,
            is_definite=True,
        )


def responses(answers: Mapping[str, Answer]) -> types.InputResponses:
    """The answers as a modern service gets them with the next call."""
    return {key: _result(answer) for key, answer in answers.items()}


def _result(answer: Answer) -> types.ElicitResult:
    content = answer.content if answer.action == "accept" else None
    return types.ElicitResult(action=answer.action, content=content)


def _refused(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)
