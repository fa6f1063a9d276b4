"""What a program hears of an answer: each word once, whatever happens to who writes it."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from chatapp.api import access_tokens
from chatapp.api.text_stream import AnswerRestarted, read_answer_text, stream_text
from chatapp.calls.transitions import Actor
from chatapp.conversations import retry
from chatapp.engine.ending import end_turn
from chatapp.engine.steps import Answer, AnswerPart, OpenStep, close_step, open_step
from chatapp.journal import journal
from chatapp.journal.journal import Entry, Kind
from chatapp.journal.lease import Lease, acquire
from chatapp.models import AccessToken, JournalEvent, Step, Turn
from chatapp.server.database import in_database
from chatapp.tools.catalogue import Catalogue
from tests import scripted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(30)]


class Writer:
    """A worker with this turn in hand, which writes when the test says so."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.lease = self._acquired()
        self.step: OpenStep = open_step(self.lease, 1)

    def _acquired(self) -> Lease:
        lease = acquire(self.turn.pk)
        assert lease is not None
        return lease

    def says(self, text: str, position: int = 0) -> None:
        data: dict[str, Any] = {
            "message": str(self.turn.answer_id),
            "step": self.step.number,
            "attempt": self.step.attempt,
            "position": position,
            "text": text,
        }
        chat = self.turn.conversation_id
        journal.append(chat, self.turn.pk, [Entry(kind=Kind.TEXT, data=data)])

    def begins_anew(self) -> None:
        self.step = open_step(self.lease, self.step.number)

    def ends(self, *texts: str, reason: str = "stop") -> None:
        parts = [
            AnswerPart(kind="text", position=position, text=text)
            for position, text in enumerate(texts)
        ]
        answer = Answer(parts=parts, finish_reason=reason)
        close_step(self.lease, self.step, answer, Catalogue(), self.turn.conversation.owner_id)
        end_turn(
            Turn.objects.get(pk=self.turn.pk), "complete" if reason else "failed", by=Actor.PERSON
        )


@pytest.fixture
def token(turn: Turn) -> AccessToken:
    person = turn.conversation.owner
    return access_tokens.create(person, name="Job", scopes=["chat"], days=7)[0]


@pytest.fixture
def writer(turn: Turn) -> Writer:
    return Writer(turn)


async def rest_of(heard: AsyncIterator[str]) -> str:
    return "".join([words async for words in heard])


async def test_parts_and_steps_are_paragraphs_and_nothing_is_said_twice(
    writer: Writer, token: AccessToken
) -> None:
    await in_database(writer.says, "One")
    async with aclosing(stream_text(writer.turn, token)) as heard:
        assert await anext(heard) == "One"
        await in_database(writer.says, " two.")
        await in_database(writer.says, "Three.", 2)
        assert await anext(heard) == " two.\n\nThree."
        await in_database(writer.ends, "One two.", "", "Three.")
        assert await rest_of(heard) == ""


async def test_an_answer_begun_anew_in_the_same_words_goes_on_where_it_was(
    writer: Writer, token: AccessToken
) -> None:
    await in_database(writer.says, "Good morn")
    async with aclosing(stream_text(writer.turn, token)) as heard:
        assert await anext(heard) == "Good morn"
        await in_database(writer.begins_anew)
        await in_database(writer.says, "Good ")
        await in_database(writer.says, "morning.")
        assert await anext(heard) == "ing."
        await in_database(writer.says, " Sit down.")
        assert await anext(heard) == " Sit down."
        await in_database(writer.ends, "Good morning. Sit down.")
        assert await rest_of(heard) == ""


@pytest.mark.parametrize("other", ["Hello.", "Go"])
async def test_an_answer_begun_anew_in_other_words_is_not_mixed_with_the_first(
    writer: Writer, token: AccessToken, other: str
) -> None:
    await in_database(writer.says, "Good morn")
    async with aclosing(stream_text(writer.turn, token)) as heard:
        assert await anext(heard) == "Good morn"
        await in_database(writer.begins_anew)
        await in_database(writer.says, other)
        await in_database(writer.ends, other)
        with pytest.raises(AnswerRestarted):
            await rest_of(heard)


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_slow_reader_lacks_nothing_when_the_journal_is_cleared(
    writer: Writer, token: AccessToken, is_over: bool
) -> None:
    await in_database(writer.says, "One")
    async with aclosing(stream_text(writer.turn, token)) as heard:
        assert await anext(heard) == "One"
        await in_database(writer.says, " two")
        await in_database(writer.ends, "One two three")
        await in_database(JournalEvent.objects.all().delete)
        if not is_over:  # somebody lets it go on
            await in_database(Turn.objects.update, state=Turn.State.RUNNING)
            await in_database(writer.says, " four", 1)
        assert await anext(heard) == " two three"


async def test_what_was_cut_off_and_said_again_is_said_once(
    writer: Writer, token: AccessToken, turn: Turn
) -> None:
    await in_database(writer.ends, "Good morn", reason="")
    again = retry.ask_again
    await in_database(again, turn.conversation, turn.conversation.owner, scripted.MODEL)
    assert await in_database(read_answer_text, turn) == ""
    assert await in_database(Step.objects.count) == 2
