"""Modern services that ask a question first: the call has not run, and continues with the answers,
from any process, at any later time."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.resources import get_prompt
from mcpconfig.operations.tools import call_tool, fetch_listing
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Answer, CallOutcome, InputRequest, InputRequired
from tests.peers import finished_calls
from tests.peers.hostile import Hostile
from tests.peers.questioner import QuestionLog, application
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def diary() -> QuestionLog:
    return QuestionLog()


@pytest.fixture
def questioner(diary: QuestionLog) -> Iterator[Served]:
    with Served(application(diary, "modern")) as served:
        yield served


@pytest.fixture
async def service(questioner: Served, service_at: MakeService) -> Service:
    made = await service_at(questioner.url)
    await fetch_listing(made)
    questioner.arrivals.clear()
    return made


def tool(name: str) -> ToolDefinition:
    return ToolDefinition(name=name, input_schema={"type": "object"})


GREETING = {"greeting": "Hello"}


async def asked(service: Service, name: str = "greet") -> InputRequired:
    question = await call_tool(service, tool(name), GREETING if name == "greet" else {})
    assert isinstance(question, InputRequired)
    return question


def accepted(question: InputRequired, **content: object) -> dict[str, Answer]:
    return {each.key: Answer(action="accept", content=content) for each in question.requests}


async def test_a_question_is_a_value_and_the_tool_has_not_run(
    service: Service, diary: QuestionLog, questioner: Served
) -> None:
    question = await asked(service)

    (request,) = question.requests
    assert (request.mode, request.message) == ("form", "Whom shall I greet?")
    assert request.schema["properties"] == {
        "name": {"type": "string", "minLength": 2, "title": "Name"}
    }
    assert request.schema["required"] == ["name"]
    assert question.request_state
    assert diary.entries == []
    assert questioner.arrivals.methods == ["tools/call"]


async def test_the_same_call_with_the_answer_goes_on(
    service: Service, diary: QuestionLog, questioner: Served
) -> None:
    question = await asked(service)

    outcome = await finished_calls.call_tool(
        service,
        tool("greet"),
        GREETING,
        answers=accepted(question, name="Ada"),
        request_state=question.request_state,
    )

    assert outcome.result.content[0]["text"] == "Hello, Ada"
    assert diary.entries == ["greeted Ada"]
    assert questioner.arrivals.methods == ["tools/call", "tools/call"], "one request a leg"


async def test_a_question_survives_as_json_and_is_answered_at_another_process_of_the_service(
    service: Service, diary: QuestionLog
) -> None:
    kept = json.dumps((await asked(service)).to_json())
    question = InputRequired.from_json(json.loads(kept))
    answers = json.loads(
        json.dumps({key: each.to_json() for key, each in accepted(question, name="Bob").items()})
    )

    with Served(application(diary, "modern")) as other:
        elsewhere = await Service.objects.acreate(
            name="elsewhere", url=other.url, allows_private_addresses=True
        )
        outcome = await finished_calls.call_tool(
            elsewhere,
            tool("greet"),
            GREETING,
            answers={key: Answer.from_json(each) for key, each in answers.items()},
            request_state=question.request_state,
        )

    assert outcome.result.content[0]["text"] == "Hello, Bob"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_no_and_nothing_are_told_apart_from_yes(
    service: Service, diary: QuestionLog, action: str
) -> None:
    question = await asked(service)
    answers = {
        each.key: Answer.from_json({"action": action, "content": {"name": "x"}})
        for each in question.requests
    }

    outcome = await finished_calls.call_tool(
        service, tool("greet"), GREETING, answers=answers, request_state=question.request_state
    )

    assert outcome.result.is_error
    assert action in outcome.result.content[0]["text"]
    assert diary.entries == []


async def test_a_tool_may_ask_again(service: Service, diary: QuestionLog) -> None:
    question = await asked(service, "erase")
    rounds = 0
    while True:
        content = {"name": "lamp"} if "greet" in question.requests[0].message else {"sure": True}
        answers = {question.requests[0].key: Answer(action="accept", content=content)}
        answers |= {
            each.key: Answer(action="accept", content={"sure": True})
            for each in question.requests[1:]
        }
        outcome = await call_tool(
            service, tool("erase"), {}, answers=answers, request_state=question.request_state
        )
        rounds += 1
        if not isinstance(outcome, InputRequired):
            break
        question = outcome
        assert rounds < 3

    assert isinstance(outcome, CallOutcome)
    assert diary.entries == ["erased lamp: True"]


async def test_an_address_is_shown_whole_and_consent_carries_no_content(
    service: Service, diary: QuestionLog
) -> None:
    question = await asked(service, "visit")
    assert question.requests == (
        InputRequest(key="page", mode="url", message="Pay first.", url="https://pay.example/7"),
    )

    outcome = await finished_calls.call_tool(
        service,
        tool("visit"),
        {},
        answers={"page": Answer(action="accept")},
        request_state=question.request_state,
    )

    assert diary.entries == ["visited: accept None"]
    assert outcome.result.content[0]["text"] == "accept, ticket 7"


async def test_a_state_without_questions_means_later(service: Service) -> None:
    pause = await asked(service, "later")
    assert pause.requests == ()
    assert pause.wait_seconds > 0

    outcome = await finished_calls.call_tool(
        service, tool("later"), {}, request_state=pause.request_state
    )

    assert outcome.result.content[0]["text"] == "ready"


@pytest.mark.parametrize("change", ["state", "arguments"])
async def test_an_answer_to_what_is_no_longer_known_starts_over(
    service: Service, diary: QuestionLog, change: str
) -> None:
    question = await asked(service)
    arguments = {"greeting": "Go away"} if change == "arguments" else GREETING
    state = question.request_state if change == "arguments" else "another"

    with pytest.raises(OperationError) as caught:
        await call_tool(
            service,
            tool("greet"),
            arguments,
            answers=accepted(question, name="Ada"),
            request_state=state,
        )

    assert caught.value.kind == "start_over"
    assert caught.value.is_definite
    assert diary.entries == []
    await service.arefresh_from_db()
    assert service.last_error is None, "the service does well"
    assert service.known_era, "and what is known of it is still right"


async def test_a_wrong_call_without_a_state_does_not_start_over(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("no_such_tool"))

    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(name="act", input_schema={}), {})

    assert caught.value.kind == "rpc_error"


async def test_people_answer_here_but_models_and_folders_are_not_lent(
    service: Service, diary: QuestionLog
) -> None:
    await call_tool(service, tool("look"), {})

    told = diary.capabilities
    assert told is not None
    assert told.elicitation is not None
    assert told.elicitation.form is not None
    assert told.elicitation.url is not None
    assert told.sampling is None
    assert told.roots is None
    assert list(told.extensions or {}) == ["io.modelcontextprotocol/tasks"]


async def test_whoever_writes_prompts_is_not_told_that_somebody_answers(
    service: Service, diary: QuestionLog
) -> None:
    await get_prompt(service, "letter", {})

    told = diary.capabilities
    assert told is not None
    assert told.elicitation is None


async def test_a_silent_modern_service_is_not_taken_for_one_that_waits_for_a_person(
    hostile: Hostile, service_at: MakeService, settings: Any
) -> None:
    settings.MCP_IDLE_SECONDS = 0.5
    service = await service_at(hostile.url("hang"))
    await fetch_listing(service)

    async def nobody(request: InputRequest) -> Answer:
        raise AssertionError

    async with asyncio.timeout(30):
        with pytest.raises(OperationError) as caught:
            await call_tool(
                service, ToolDefinition(name="act", input_schema={}), {}, on_question=nobody
            )

    assert caught.value.kind == "timeout"


ASKING = {
    "asks_sampling": "Services can only ask questions to people",
    "asks_roots": "Services can only ask questions to people",
    "asks_oddly": "Services can only ask questions to people",
    "asks_nested": "a field of an unknown type",
    "asks_inside": "an unsafe address",
    "asks_much": "too many questions at once",
    "asks_with_a_nul": "can’t be stored",
    "asks_with_a_load": "can’t be stored",
}


@pytest.mark.parametrize("deed", ASKING)
async def test_what_cannot_be_put_to_a_person_is_a_definite_refusal(
    hostile: Hostile, service_at: MakeService, deed: str
) -> None:
    service = await service_at(hostile.url(deed))

    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(name="act", input_schema={}), {})

    assert caught.value.kind == "protocol"
    assert ASKING[deed] in caught.value.message
    assert caught.value.is_definite
    assert hostile.effects == 1
