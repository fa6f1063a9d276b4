"""Files that programs send: reading them holds up nobody else."""

import asyncio
import base64
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from chatapp.api import calls
from chatapp.conversations import uploads
from chatapp.files import reader
from chatapp.models import Member, Turn
from chatapp.server.database import THREADS, in_database
from chatapp.server.runtime import current_runtime
from tests import scripted
from tests.chatapp.files.papers import pdf as paper
from tests.scripted import text
from tests.turns.acts import wait_until

from .openai_program import Program, get_text, program, runtime

__all__ = ["program", "runtime"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def with_a_pdf(number: int) -> list[dict[str, Any]]:
    url = f"data:application/pdf;base64,{base64.b64encode(paper('Words')).decode()}"
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": url}}
    words = {"type": "text", "text": f"Read paper {number}"}
    return [{"role": "user", "content": [words, file]}]


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Nobody's PDF is opened before this is released."""
    turn_of_next = threading.Semaphore(0)
    monkeypatch.setattr(reader, "_AT_ONCE", turn_of_next)
    yield turn_of_next
    turn_of_next.release(100)


async def test_slow_files_stop_neither_the_engine_nor_others_and_are_bounded_for_each_token(
    program: Program, owner: Member, reading: threading.Semaphore
) -> None:
    programs = [program, *[await in_database(Program, owner) for _ in range(THREADS - 1)]]
    asking = [
        asyncio.create_task(each.ask(with_a_pdf(number)))
        for each in programs
        for number in range(uploads.MAX_EXAMINATIONS)
    ]
    await wait_until(lambda: current_runtime().file_examinations.total() == len(asking))
    async with asyncio.timeout(30):  # else every thread of the engine would hold one of them
        assert not await in_database(Turn.objects.exists)
    with pytest.raises(openai.RateLimitError):
        await asyncio.wait_for(program.ask(with_a_pdf(99)), 30)
    scripted.scenes.append(text("Hello."))
    assert get_text(await program.ask()) == "Hello."
    reading.release(len(asking))
    scripted.scenes += [text("Read.") for _ in asking]
    assert {get_text(answer) for answer in await asyncio.gather(*asking)} == {"Read."}
    assert not current_runtime().file_examinations


async def test_what_comes_too_often_is_not_even_read(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_A_MINUTE", 0)
    assert (await program.post(b"no JSON at all")).status_code == 429


async def test_a_message_without_words_is_refused_before_its_files_are_opened(
    program: Program, reading: threading.Semaphore
) -> None:
    asked = with_a_pdf(1)
    asked[0]["content"][0]["text"] = " "
    with pytest.raises(openai.UnprocessableEntityError, match="Enter a message"):
        await asyncio.wait_for(program.ask(asked), 10)
