"""Questions of handshake-era services, which ask in the middle of a call: its connection stays open
for a bounded time, and the answer comes through a row, given in whichever process."""

import asyncio
import logging
import time
import uuid
from dataclasses import dataclass

from django.conf import settings

from chatapp.models import Question, ToolCall
from chatapp.storage import in_database, in_time
from mcpconfig.results import Answer, InputRequest

from . import journal
from .lease import Lease, fenced
from .ledger import Sending
from .milestones import passed
from .patience import AWAY, kept_trying, uninterrupted
from .pausing import keep_question
from .resuming import answers_of

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
NOBODY = Answer(action="cancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuestions:
    """What one call that is under way asks its person."""

    lease: Lease
    sending: Sending

    async def ask(self, request: InputRequest) -> Answer:
        """The person's answer, or after the bound that nobody answered; the card then says that it
        is too late. Cut off meanwhile, the question is withdrawn."""
        question_id = await in_database(self._open, request)
        passed("K22")
        over = time.monotonic() + settings.QUESTION_WAIT_SECONDS
        try:
            while time.monotonic() < over:
                if answer := await _look(question_id, request.key):
                    return answer
                await asyncio.sleep(LOOK_SECONDS)
        except asyncio.CancelledError:
            withdrawn = in_database(self._close, question_id, Question.State.WITHDRAWN)
            await uninterrupted(withdrawn)
            raise
        await kept_trying(self.lease, self._close, question_id, Question.State.EXPIRED)
        return await kept_trying(self.lease, _answer_to, question_id, request.key) or NOBODY

    def _open(self, request: InputRequest) -> uuid.UUID:
        until = in_time(seconds=settings.QUESTION_WAIT_SECONDS)
        with fenced(self.lease) as turn:
            question = keep_question(
                self.sending.call_id,
                (request,),
                expires_at=until,
                source=Question.Source.LIVE,
            )
            journal.tell_call(turn, self.sending.call_id, ToolCall.State.SENDING)
        return question.pk

    def _close(self, question_id: uuid.UUID, state: Question.State) -> None:
        with fenced(self.lease) as turn:
            asked = Question.objects.filter(pk=question_id, state=Question.State.OPEN)
            if asked.update(state=state):
                journal.tell_call(turn, self.sending.call_id, ToolCall.State.SENDING)


async def _look(question_id: uuid.UUID, key: str) -> Answer | None:
    """The answer, if there is one by now. The call goes on while the database is away."""
    try:
        return await in_database(_answer_to, question_id, key)
    except AWAY as error:
        log.info("Question %s could not be looked at: %r", question_id, error)
        return None


def _answer_to(question_id: uuid.UUID, key: str) -> Answer | None:
    question = Question.objects.get(pk=question_id)
    return answers_of(question).get(key) if question.state in Question.GIVEN else None
