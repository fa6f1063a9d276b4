"""Questions of handshake-era services in the middle of a call. The connection stays open for a
bounded time, and the answer is read from a row, so that any process may receive it."""

import asyncio
import logging
import time
import uuid
from dataclasses import dataclass

from django.conf import settings

from chatapp.calls.ledger import Sending
from chatapp.journal import journal
from chatapp.journal.db_retry import DATABASE_AWAY, retry_in_database, run_uninterrupted
from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Question, ToolCall
from chatapp.server.database import from_now, in_database
from mcpconfig.values.results import Answer, InputRequest

from .question_rounds import read_answers, store_question

log = logging.getLogger(__name__)
POLL_SECONDS = 0.5
NO_ANSWER = Answer(action="cancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuestions:
    """The questions that one running call asks its person."""

    lease: Lease
    sending: Sending

    async def ask(self, request: InputRequest) -> Answer:
        """Wait for the person's answer and return it, or `NO_ANSWER` when the time is over.

        The question then expires. It is withdrawn if the call is cancelled meanwhile.
        """
        question_id = uuid.uuid4()
        over = time.monotonic() + settings.QUESTION_WAIT_SECONDS
        try:
            # To its end, so that a question is never stored after it was withdrawn.
            await run_uninterrupted(in_database(self._open, question_id, request))
            reach(FaultPoint.LIVE_QUESTION_COMMITTED)
            while time.monotonic() < over:
                if answer := await _read_answer(question_id, request.key):
                    return answer
                await asyncio.sleep(POLL_SECONDS)
        except asyncio.CancelledError:
            withdrawn = in_database(self._close, question_id, Question.State.WITHDRAWN)
            await run_uninterrupted(withdrawn)
            raise
        await retry_in_database(self.lease, self._close, question_id, Question.State.EXPIRED)
        return (
            await retry_in_database(self.lease, _find_answer, question_id, request.key) or NO_ANSWER
        )

    def _open(self, question_id: uuid.UUID, request: InputRequest) -> None:
        until = from_now(seconds=settings.QUESTION_WAIT_SECONDS)
        with lock_turn(self.lease) as turn:
            store_question(
                self.sending.call_id,
                (request,),
                pk=question_id,
                expires_at=until,
                source=Question.Source.LIVE,
            )
            journal.append_call(turn, self.sending.call_id, ToolCall.State.SENDING)

    def _close(self, question_id: uuid.UUID, state: Question.State) -> None:
        with lock_turn(self.lease) as turn:
            asked = Question.objects.filter(pk=question_id, state=Question.State.OPEN)
            if asked.update(state=state):
                journal.append_call(turn, self.sending.call_id, ToolCall.State.SENDING)


async def _read_answer(question_id: uuid.UUID, key: str) -> Answer | None:
    """Return the answer if there is one. The call continues while the database is away."""
    try:
        return await in_database(_find_answer, question_id, key)
    except DATABASE_AWAY as error:
        log.info("Question %s could not be read: %r", question_id, error)
        return None


def _find_answer(question_id: uuid.UUID, key: str) -> Answer | None:
    question = Question.objects.get(pk=question_id)
    return read_answers(question).get(key) if question.state in Question.GIVEN else None
