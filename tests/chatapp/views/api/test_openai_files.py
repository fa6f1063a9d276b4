"""Files that programs send: reading them holds up nobody else (A10)."""

import asyncio
import base64
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from chatapp.files import pdf
from chatapp.models import Member, Turn
from chatapp.storage import THREADS, in_database
from chatapp.turns import file_reading, program_calls
from tests import scripted
from tests.chatapp.files.papers import pdf as paper
from tests.chatapp.turns.acts import until
from tests.scripted import text

from .openai_program import Program, program, said, workplace

__all__ = ["program", "workplace"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]


def with_a_pdf(number: int) -> list[dict[str, Any]]:
    url = f"data:application/pdf;base64,{base64.b64encode(paper('Words')).decode()}"
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": url}}
    words = {"type": "text", "text": f"Read paper {number}"}
    return [{"role": "user", "content": [words, file]}]


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Nobody's PDF is opened before this is released."""
    turn_of_next = threading.Semaphore(0)
    monkeypatch.setattr(pdf, "_AT_ONCE", turn_of_next)
    yield turn_of_next
    turn_of_next.release(100)


async def test_slow_files_stop_neither_the_engine_nor_others_and_are_bounded_for_each_token(
    program: Program, owner: Member, reading: threading.Semaphore
) -> None:
    programs = [program, *[await in_database(Program, owner) for _ in range(THREADS - 1)]]
    asking = [
        asyncio.create_task(each.ask(with_a_pdf(number)))
        for each in programs
        for number in range(file_reading.MOST_AT_ONCE)
    ]
    await until(lambda: sum(file_reading._at_once.values()) == len(asking))
    async with asyncio.timeout(5):  # else every thread of the engine would hold one of them
        assert not await in_database(Turn.objects.exists)
    with pytest.raises(openai.RateLimitError):
        await asyncio.wait_for(program.ask(with_a_pdf(99)), 5)
    scripted.scenes.append(text("Hello."))
    assert said(await program.ask()) == "Hello."
    reading.release(len(asking))
    scripted.scenes += [text("Read.") for _ in asking]
    assert {said(answer) for answer in await asyncio.gather(*asking)} == {"Read."}
    assert not file_reading._at_once


async def test_what_comes_too_often_is_not_even_read(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_calls, "MOST_A_MINUTE", 0)
    assert (await program.post(b"no JSON at all")).status_code == 429


async def test_a_message_without_words_is_refused_before_its_files_are_opened(
    program: Program, reading: threading.Semaphore
) -> None:
    asked = with_a_pdf(1)
    asked[0]["content"][0]["text"] = " "
    with pytest.raises(openai.UnprocessableEntityError, match="Write a message"):
        await asyncio.wait_for(program.ask(asked), 10)
