"""Our tools over REST: every answer that a program can get, and what stays out of its reach."""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from httpx2 import ASGITransport, AsyncClient

from chatapp.api import access_tokens
from chatapp.api import calls as program_calls
from chatapp.approvals import decisions
from chatapp.asgi import application
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.models import AccessToken, Approval, Member, PolicyRule, ToolCall, Turn
from chatapp.server.database import close_threads, in_database
from chatapp.views.api import rest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
TOKYO = {"zone": "Asia/Tokyo"}
FACT = {"text": "Reports go out on Mondays."}


@pytest_asyncio.fixture
async def runtime(transactional_db: None) -> AsyncIterator[EngineRuntime]:
    opened = await open_engine_runtime(sweeps=False)
    yield opened
    await close_engine_runtime(opened)
    close_threads()


class Program:
    """A program with a token of this person, before the whole application."""

    def __init__(self, person: Member, *scopes: str) -> None:
        self.token, self.text = access_tokens.create(
            person, name="Job", scopes=scopes or ("tools",), days=7
        )

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.text}"} | more.pop("headers", {})
        transport = ASGITransport(app=application)
        async with AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers, **more)

    async def get(self, path: str) -> Any:
        return await self.ask("GET", path)

    async def call(self, tool: str, arguments: Any = None, **headers: str) -> Any:
        body = arguments if isinstance(arguments, bytes) else json.dumps(arguments or {}).encode()
        headers = {"Content-Type": "application/json"} | headers
        return await self.ask("POST", f"/api/tools/{tool}", content=body, headers=headers)


@pytest.fixture
def program(transactional_db: None, owner: Member) -> Program:
    return Program(owner)


def fault(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["kind"]


async def test_the_list_has_what_a_program_needs_to_call_a_tool(program: Program) -> None:
    listed = (await program.get("/api/tools/")).json()["tools"]
    tool = next(each for each in listed if each["name"] == "current-time")
    assert tool["url"].endswith("/api/tools/current-time")
    assert tool["input_schema"]["properties"]["zone"]["type"] == "string"
    assert tool["examples"][0]["input"] == TOKYO
    assert tool["limits"] and tool["output_schema"]["properties"]
    assert (await program.get("/api/tools/current-time")).json() == tool


async def test_a_call_answers_with_the_result(runtime: EngineRuntime, program: Program) -> None:
    answer = await program.call("current-time", TOKYO)
    told = answer.json()
    assert (answer.status_code, told["state"]) == (200, "succeeded")
    assert told["result"]["zone"] == "Asia/Tokyo" and "Asia/Tokyo" in told["text"]
    again = await program.get(f"/api/calls/{told['call']}")
    assert (again.status_code, again.json()) == (200, told)
    assert "no-store" in again.headers["Cache-Control"]


async def test_no_body_means_no_arguments(runtime: EngineRuntime, program: Program) -> None:
    assert (await program.call("list-services", b"")).status_code == 200


async def test_what_must_be_approved_answers_202_and_says_where(
    runtime: EngineRuntime, program: Program, owner: Member
) -> None:
    answer = await program.call("remember", FACT)
    told = answer.json()
    assert (answer.status_code, told["state"]) == (202, "awaiting_approval")
    assert told["waits"]["for"] == "approval" and told["waits"]["id"] == told["call"]
    assert told["waits"]["url"].endswith(f"/approvals/{told['call']}/")
    assert answer.headers["Location"] == told["url"] and answer.headers["Retry-After"]
    assert "Nothing runs before that" in told["message"]
    call = await in_database(ToolCall.objects.get, pk=told["call"])
    approval = await in_database(Approval.objects.get, tool_call=call)
    await in_database(
        lambda: decisions.grant(
            ToolCall.of(owner, call.pk), by=owner, binding=approval.binding, shown_at=None
        )
    )
    await program_calls.wait_until_settled(call, 10)
    done = await program.get(f"/api/calls/{told['call']}")
    assert (done.status_code, done.json()["state"]) == (200, "succeeded")


async def test_a_call_that_is_still_running_answers_202(
    runtime: EngineRuntime, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "WAIT_SECONDS", 0)
    answer = await program.call("current-time", TOKYO)
    assert answer.status_code == 202
    assert answer.json()["waits"] is None
    call = await in_database(ToolCall.objects.get, pk=answer.json()["call"])
    await program_calls.wait_until_settled(call, 10)
    assert (await program.get(f"/api/calls/{call.pk}")).status_code == 200


async def test_a_denied_call_and_a_refused_one_are_403_with_the_reason(
    runtime: EngineRuntime, program: Program, owner: Member
) -> None:
    told = (await program.call("remember", FACT)).json()
    call = await in_database(lambda: ToolCall.of(owner, uuid.UUID(told["call"])))
    binding = (await in_database(Approval.objects.get, tool_call=call)).binding
    await in_database(decisions.deny, call, by=owner, binding=binding, reason="Not today.")
    await program_calls.wait_until_settled(call, 10)
    denied = await program.get(f"/api/calls/{call.pk}")
    assert fault(denied) == (403, "denied")
    assert "Not today." in denied.json()["error"]["message"]
    await in_database(PolicyRule.objects.create, name="No", effect="deny", tool="current-time")
    refused = await program.call("current-time", TOKYO)
    assert fault(refused) == (403, "refused")
    assert refused.json()["call"]


async def test_what_a_rule_forbids_in_any_case_is_not_listed_and_a_call_of_it_says_why(
    runtime: EngineRuntime, program: Program
) -> None:
    sometimes = {"name": "Big", "effect": "deny", "tool": "recall", "condition": "limit > 5"}
    never = {"name": "No", "effect": "deny", "tool": "current-time"}
    for values in (sometimes, never):
        await in_database(PolicyRule.objects.create, **values)
    listed = (await program.get("/api/tools/")).json()["tools"]
    paths = (await program.get("/api/openapi.json")).json()["paths"]
    for names in ({each["name"] for each in listed}, {path.split("/")[-1] for path in paths}):
        assert "recall" in names and "current-time" not in names
    refused = await program.call("current-time", TOKYO)
    assert fault(refused) == (403, "refused")
    assert "an admin rule forbids it" in refused.json()["error"]["message"]


async def test_a_tool_that_fails_is_422_with_its_words(
    runtime: EngineRuntime, program: Program
) -> None:
    answer = await program.call("current-time", {"zone": "Asia/Tokio"})
    assert fault(answer) == (422, "failed")
    assert "Asia/Tokyo" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"zone": 7}, "zone"),
        ({}, "zone"),
        ({"zone": "x" * 100}, "zone"),
        ({"zone": "UTC", "more": 1}, "more"),
    ],
)
async def test_arguments_that_do_not_fit_name_the_field(
    program: Program, arguments: dict[str, Any], field: str
) -> None:
    answer = await program.call("current-time", arguments)
    assert fault(answer) == (422, "input")
    assert answer.json()["error"]["field"] == field
    assert not await in_database(Turn.objects.exists)


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{", 400, "unreadable"),
        (b"[]", 400, "unreadable"),
        (b"null", 400, "unreadable"),
        (b"\xff\xfe", 400, "unreadable"),
        (b"[" * 50_000, 400, "unreadable"),
        (b'{"zone": NaN}', 422, "input"),
        (b'{"zone": "\\u0000"}', 422, "input"),
        (b'{"zone": "\\ud800"}', 422, "input"),
        (b'{"zone": "' + b"x" * 70_000 + b'"}', 413, "too_large"),
    ],
    ids=range(9),
)
async def test_what_cannot_be_read_is_said_and_nothing_begins(
    program: Program, body: bytes, status: int, kind: str
) -> None:
    assert fault(await program.call("current-time", body)) == (status, kind)
    assert not await in_database(Turn.objects.exists)


async def test_a_body_of_another_type_is_refused(program: Program) -> None:
    answer = await program.call("current-time", b"zone=UTC", **{"Content-Type": "text/plain"})
    assert fault(answer) == (415, "media_type")


async def test_other_methods_are_refused_in_the_same_form(program: Program) -> None:
    answer = await program.ask("DELETE", "/api/tools/current-time")
    assert fault(answer) == (405, "method")
    assert answer.headers["Allow"] == "GET, POST"


@pytest.mark.parametrize(
    "name", ["nothing", "find-tools", "make-plan", "add-service", "%00", "%C3%A9"]
)
async def test_what_is_not_offered_is_not_found(program: Program, name: str) -> None:
    assert fault(await program.call(name)) == (404, "not_found")


async def test_a_retry_with_its_key_runs_nothing_twice(
    runtime: EngineRuntime, program: Program
) -> None:
    first = await program.call("current-time", TOKYO, **{"Idempotency-Key": "a"})
    again = await program.call("current-time", TOKYO, **{"Idempotency-Key": "a"})
    assert again.json() == first.json()
    other = await program.call("current-time", {"zone": "UTC"}, **{"Idempotency-Key": "a"})
    assert fault(other) == (422, "refused")
    assert await in_database(ToolCall.objects.count) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
async def test_a_key_that_nobody_can_keep_is_refused(program: Program, key: str) -> None:
    answer = await program.call("current-time", TOKYO, **{"Idempotency-Key": key})
    assert fault(answer) == (400, "idempotency_key")


async def test_too_many_calls_are_429_and_say_when_to_come_back(
    runtime: EngineRuntime, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_calls, "MAX_A_MINUTE", 0)
    answer = await program.call("current-time", TOKYO)
    assert answer.status_code == 429 and answer.headers["Retry-After"] == "60"


async def test_other_scopes_and_sessions_open_nothing(owner: Member) -> None:
    other = await in_database(Program, owner, "mcp", "chat")
    calls = f"/api/calls/{uuid.uuid4()}"
    for path in ("/api/tools/", "/api/tools/current-time", "/api/openapi.json", calls):
        assert fault(await other.get(path)) == (403, "scope")
    assert fault(await other.call("current-time", TOKYO)) == (403, "scope")
    assert not await in_database(Turn.objects.exists)


async def test_a_strangers_program_finds_no_call_of_the_owners(
    runtime: EngineRuntime, program: Program, owner: Member, stranger: Member
) -> None:
    told = (await program.call("remember", FACT)).json()
    theirs = await in_database(Program, stranger)
    beside = await in_database(Program, owner)
    missing = await theirs.get(f"/api/calls/{uuid.uuid4()}")
    for no_id in ("null", "1", "%00", "0" * 200):
        assert (await theirs.get(f"/api/calls/{no_id}")).content == missing.content
    for other in (theirs, beside):
        found = await other.get(f"/api/calls/{told['call']}")
        assert (fault(found), found.content) == ((404, "not_found"), missing.content)


async def test_a_strangers_memories_and_chats_are_out_of_reach(
    runtime: EngineRuntime, program: Program, owner: Member, stranger: Member
) -> None:
    await in_database(owner.memories.create, text="The owner's secret plan")
    told = (await program.call("current-time", TOKYO)).json()
    chat = (await in_database(ToolCall.objects.select_related("turn").get, pk=told["call"])).turn
    theirs = await in_database(Program, stranger)
    read = await theirs.call("read-conversation", {"conversation": str(chat.conversation_id)})
    assert fault(read) == (422, "failed")
    for tool, arguments in (
        ("recall", {"words": "secret plan"}),
        ("search-conversations", {"words": "current-time"}),
    ):
        answer = await theirs.call(tool, arguments)
        assert "secret" not in answer.json()["text"]
        assert str(chat.conversation_id) not in answer.text


async def test_a_revoked_token_cannot_ask_after_its_calls(
    runtime: EngineRuntime, program: Program
) -> None:
    told = (await program.call("current-time", TOKYO)).json()
    await in_database(access_tokens.revoke, await in_database(AccessToken.objects.get))
    assert fault(await program.get(f"/api/calls/{told['call']}")) == (401, "token_ended")


async def test_the_document_has_every_offered_tool_and_no_other(program: Program) -> None:
    paths = (await program.get("/api/openapi.json")).json()["paths"]
    listed = (await program.get("/api/tools/")).json()["tools"]
    offered = {f"/api/tools/{tool['name']}" for tool in listed}
    assert {path for path in paths if path.startswith("/api/tools/")} == {"/api/tools/"} | offered


async def test_every_reference_of_the_document_leads_somewhere(program: Program) -> None:
    text = (await program.get("/api/openapi.json")).text
    document = json.loads(text)
    named = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert named and named <= set(document["components"]["schemas"])
