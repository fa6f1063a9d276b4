"""Handshake-era services that ask while a call runs: somebody answers, within bounds, while the
operation's clock stands still."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import fetch_listing
from mcpconfig.session import elicitation
from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import Answer, InputRequest
from tests.peers.finished_calls import call_tool
from tests.peers.questioner import QuestionLog, application, questioner
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

GREETING = {"greeting": "Hello"}


@pytest.fixture
def diary() -> QuestionLog:
    return QuestionLog()


@pytest.fixture(params=["streamable", "sse"])
def peer(request: pytest.FixtureRequest, diary: QuestionLog) -> Iterator[Served]:
    if request.param == "sse":
        with Served(questioner(diary).sse_app(), path="/sse") as served:
            yield served
        return
    with Served(application(diary, "handshake")) as served:
        yield served


@pytest.fixture
async def service(peer: Served, service_at: MakeService) -> Service:
    made = await service_at(peer.url)
    await fetch_listing(made)
    return made


@pytest.fixture
async def handshake_service(diary: QuestionLog, service_at: MakeService) -> Any:
    with Served(application(diary, "handshake")) as served:
        made = await service_at(served.url)
        await fetch_listing(made)
        yield made


def tool(name: str) -> ToolDefinition:
    return ToolDefinition(name=name, input_schema={"type": "object"})


class Person:
    """Answers as it was told to, and keeps what it was asked."""

    def __init__(self, *answers: Answer, after: float = 0) -> None:
        self.answers = list(answers)
        self.after = after
        self.asked: list[InputRequest] = []

    async def __call__(self, request: InputRequest) -> Answer:
        self.asked.append(request)
        await asyncio.sleep(self.after)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def yes(**content: object) -> Answer:
    return Answer(action="accept", content=content)


async def test_somebody_answers_while_the_service_waits(
    service: Service, diary: QuestionLog
) -> None:
    person = Person(yes(name="Ada"))

    outcome = await call_tool(service, tool("greet"), GREETING, on_question=person)

    assert outcome.result.content[0]["text"] == "Hello, Ada"
    assert [(each.key, each.message) for each in person.asked] == [("1", "Whom shall I greet?")]
    assert person.asked[0].schema["required"] == ["name"]


async def test_no_reaches_the_service_as_no(handshake_service: Service, diary: QuestionLog) -> None:
    person = Person(Answer(action="decline"), Answer(action="cancel"))

    await call_tool(handshake_service, tool("nag"), {"times": 2}, on_question=person)

    assert diary.entries == ["0: decline", "1: cancel"]


async def test_an_answer_that_does_not_fit_is_not_sent(
    handshake_service: Service, diary: QuestionLog
) -> None:
    person = Person(yes(sure="perhaps"))

    await call_tool(handshake_service, tool("nag"), {"times": 1}, on_question=person)

    assert diary.entries == ["0: cancel"]


async def test_the_clock_stands_still_while_a_person_thinks(
    service: Service, settings: Any
) -> None:
    settings.MCP_IDLE_SECONDS = 1
    person = Person(yes(name="Ada"), after=3)

    outcome = await call_tool(service, tool("greet"), GREETING, on_question=person, total_seconds=2)

    assert outcome.result.content[0]["text"] == "Hello, Ada"


async def test_the_clock_goes_on_when_the_person_has_answered(
    handshake_service: Service, diary: QuestionLog
) -> None:
    person = Person(yes(sure=True), after=0.5)

    with pytest.raises(OperationError) as caught:
        async with asyncio.timeout(30):
            await call_tool(
                handshake_service, tool("dawdle"), {}, on_question=person, total_seconds=1.5
            )

    assert caught.value.kind == "timeout"
    assert not caught.value.is_definite
    assert len(person.asked) == 1


async def test_nobody_is_waited_for_without_end(
    handshake_service: Service, diary: QuestionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elicitation, "LIMITS", replace(LIMITS, question_seconds=0.2))
    person = Person(yes(sure=True), after=20)

    await call_tool(handshake_service, tool("nag"), {"times": 1}, on_question=person)

    assert diary.entries == ["0: cancel"]


async def test_a_call_asks_only_so_often(
    handshake_service: Service, diary: QuestionLog, settings: Any
) -> None:
    settings.QUESTION_ROUNDS = 2
    person = Person(yes(sure=True))

    outcome = await call_tool(handshake_service, tool("nag"), {"times": 9}, on_question=person)

    assert len(person.asked) == 2
    assert diary.entries == ["0: accept", "1: accept", "refused after 2: -32600"]
    assert outcome.result.content[0]["text"] == "asked enough", "the service decides how it goes on"


@pytest.mark.parametrize("is_asked", [True, False])
async def test_only_who_answers_says_that_he_does(
    handshake_service: Service, diary: QuestionLog, is_asked: bool
) -> None:
    await call_tool(
        handshake_service, tool("look"), {}, on_question=Person(yes()) if is_asked else None
    )

    told = diary.capabilities
    assert told is not None
    assert (told.elicitation is not None) == is_asked
    assert told.sampling is None
    assert told.roots is None


async def test_without_anybody_the_service_hears_so_and_goes_on(
    handshake_service: Service, diary: QuestionLog
) -> None:
    await call_tool(handshake_service, tool("nag"), {"times": 1})

    assert diary.entries == ["refused after 0: -32600"]


async def test_a_service_met_for_the_first_time_hears_it_too(
    diary: QuestionLog, service_at: MakeService
) -> None:
    with Served(application(diary, "handshake")) as served:
        await call_tool(await service_at(served.url), tool("nag"), {"times": 1})

    assert diary.entries == ["refused after 0: -32600"]


@pytest.mark.parametrize("what", ["model", "folders"])
async def test_models_and_folders_are_not_lent(
    service: Service, diary: QuestionLog, what: str
) -> None:
    outcome = await call_tool(
        service, tool("pester"), {"what": what}, on_question=Person(Answer(action="cancel"))
    )

    assert diary.entries == [f"{what}: -32600"]
    assert outcome.result.content[0]["text"] == "went on without"


async def test_stop_while_a_person_is_asked_ends_the_call(handshake_service: Service) -> None:
    asked = asyncio.Event()

    async def nobody(request: InputRequest) -> Answer:
        asked.set()
        await asyncio.sleep(60)
        raise AssertionError

    call = asyncio.create_task(
        call_tool(handshake_service, tool("nag"), {"times": 1}, on_question=nobody)
    )
    await asyncio.wait_for(asked.wait(), 30)
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30):
            await call
