"""Handshake-era services that take a call only once a page has been opened (-32042)."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import call_tool
from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import Answer, InputRequest, InputRequired
from tests.mcp_command import Ran
from tests.peers import finished_calls
from tests.peers.serving import Served
from tests.peers.tollgate import PAGE, Tollgate

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)

CROSS = ToolDefinition(name="cross", input_schema={"type": "object"})
ADA = {"who": "Ada"}
OPENED = {"toll 1": Answer(action="accept")}


@pytest.fixture
def gate() -> Tollgate:
    return Tollgate()


@pytest.fixture
def served(gate: Tollgate) -> Iterator[Served]:
    with Served(gate.application()) as served:
        yield served


@pytest.fixture
async def service(served: Served, service_at: MakeService) -> Service:
    return await service_at(served.url)


async def test_the_page_is_a_question_and_the_call_has_not_run(
    service: Service, gate: Tollgate
) -> None:
    asked = await call_tool(service, CROSS, ADA)

    assert isinstance(asked, InputRequired)
    assert asked.requests == (
        InputRequest(key="toll 1", mode="url", message=PAGE["message"], url=PAGE["url"]),
    )
    assert asked.request_state is None
    assert gate.passages == []
    await service.arefresh_from_db()
    assert service.last_error is None, "the service does well"


async def test_the_same_call_goes_on_once_the_page_was_opened(
    service: Service, served: Served, gate: Tollgate
) -> None:
    await call_tool(service, CROSS, ADA)
    gate.is_paid = True
    served.arrivals.clear()

    outcome = await finished_calls.call_tool(service, CROSS, ADA, answers=OPENED)

    assert outcome.result.content[0]["text"] == "Ada is across"
    assert gate.passages == ["Ada"]
    assert served.arrivals.methods.count("tools/call") == 1


async def test_a_page_that_was_not_opened_after_all_is_asked_for_again(
    service: Service, gate: Tollgate
) -> None:
    assert isinstance(await call_tool(service, CROSS, ADA, answers=OPENED), InputRequired)
    assert gate.passages == []


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_after_a_no_the_call_is_not_sent_again(
    service: Service, served: Served, gate: Tollgate, action: Any
) -> None:
    gate.is_paid = True

    with pytest.raises(OperationError, match="was declined") as caught:
        await call_tool(service, CROSS, ADA, answers={"toll 1": Answer(action=action)})

    assert (caught.value.is_definite, caught.value.was_sent) == (True, False)
    assert "tools/call" not in served.arrivals.methods
    assert gate.passages == []


@pytest.mark.parametrize(
    ("wanted", "kind", "said"),
    [
        (None, "rpc_error", "Pay first."),
        ({"elicitations": []}, "rpc_error", "Pay first."),
        ({"elicitations": "all"}, "rpc_error", "Pay first."),
        ({"elicitations": [7]}, "protocol", "can’t be read"),
        ({"elicitations": [{**PAGE, "elicitationId": ["x"]}]}, "protocol", "can’t be read"),
        ({"elicitations": [PAGE, PAGE]}, "protocol", "the same page twice"),
        ({"elicitations": [{**PAGE, "url": "http://10.0.0.1/"}]}, "protocol", "an unsafe address"),
        (
            {"elicitations": [{**PAGE, "mode": "form", "url": None}]},
            "protocol",
            "an unsafe address",
        ),
        (
            {
                "elicitations": [
                    {**PAGE, "elicitationId": str(n)} for n in range(LIMITS.questions + 1)
                ]
            },
            "protocol",
            "too many questions at once",
        ),
    ],
)
async def test_what_cannot_be_put_to_a_person_is_a_definite_refusal(
    service: Service, gate: Tollgate, wanted: Any, kind: str, said: str
) -> None:
    gate.wanted = wanted

    with pytest.raises(OperationError, match=said) as caught:
        await call_tool(service, CROSS, ADA)

    assert (caught.value.kind, caught.value.is_definite) == (kind, True)


async def test_a_modern_service_has_better_words_for_it(
    gate: Tollgate, service_at: MakeService
) -> None:
    with Served(gate.application("modern")) as served:
        service = await service_at(served.url)
        with pytest.raises(OperationError, match=r"refused: Pay first\."):
            await call_tool(service, CROSS, ADA)


def test_the_command_prints_the_address_and_asks_no_more_often_than_it_is_run(
    served: Served, gate: Tollgate
) -> None:
    assert Ran("add", "gate", served.url, "--allow-private").code == 0
    call = ("call", "gate", "cross", '{"who": "Ada"}')

    asked = Ran(*call)
    assert asked.code == 3
    assert f"Open: {PAGE['url']}" in asked.out
    assert "--answer 'toll 1={}'" in asked.out

    served.arrivals.clear()
    too_soon = Ran(*call, "--answer", "toll 1={}")
    assert (too_soon.code, served.arrivals.methods.count("tools/call")) == (3, 2)

    gate.is_paid = True
    assert Ran(*call, "--answer", "toll 1={}").out.strip() == "Ada is across"
    assert gate.passages == ["Ada"]
