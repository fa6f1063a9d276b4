"""What only PostgreSQL can show. `test_on_postgresql.py` runs this file there."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection, transaction

from chatapp.audit import audit_log
from chatapp.calls import own_tool_execution
from chatapp.calls.deciding import decide_calls
from chatapp.calls.own_tool_calls import compute_core_binding
from chatapp.context import summaries
from chatapp.conversations import intake, retry
from chatapp.journal.db_retry import retry_in_database
from chatapp.journal.journal import SUMMARISED
from chatapp.journal.lease import acquire
from chatapp.models import Conversation, Part, Summary, ToolCall, ToolLimit, Turn
from chatapp.people.refused import Refused
from chatapp.policy.daily_limits import lock_person
from chatapp.server.database import close_threads, in_database
from chatapp.tools.catalogue import Catalogue, load_known_catalogue
from chatapp.tools.core import core_tool
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.policy.test_consents import confirmed
from tests.turns import rows
from tests.turns.own_tool_turns import Echo, offer

__all__ = ["confirmed"]
pytestmark = pytest.mark.django_db(transaction=True)


def session() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        number: int = cursor.fetchone()[0]
    return number


def terminate(number: int) -> None:
    """End a session as a restart of the server does, from a connection outside the pool."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [number])
            assert cursor.fetchone()[0], "the session did not end"
    finally:
        other.close()


def test_these_tests_run_on_postgresql() -> None:
    assert connection.vendor == "postgresql"


async def test_a_connection_that_died_in_its_sleep_is_replaced_unnoticed(turn: Turn) -> None:
    close_threads()
    sessions = {await in_database(session) for _ in range(8)}
    for number in sessions:
        await asyncio.to_thread(terminate, number)
    assert await in_database(Turn.objects.count) == 1
    assert not {await in_database(session) for _ in range(8)} & sessions


async def test_a_connection_that_dies_at_work_fails_that_work_and_no_other(turn: Turn) -> None:
    def cut_off() -> None:
        with transaction.atomic():
            Conversation.objects.update(title="Half")
            terminate(session())
            Conversation.objects.update(title="Whole")

    with pytest.raises(OperationalError):
        await in_database(cut_off)
    for _ in range(8):
        found = await in_database(Conversation.objects.get)
        assert found.title == "Tidy up, please"


def wait_until_ended(number: int) -> None:
    other = connection.copy()
    until = time.monotonic() + 30
    try:
        while time.monotonic() < until:
            with other.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [number])
                if not cursor.fetchone()[0]:
                    return
            time.sleep(0.02)
    finally:
        other.close()
    raise AssertionError("the session did not end")


def freeze() -> None:
    """Be idle inside the transaction until PostgreSQL ends the session."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 100")
    wait_until_ended(session())


def close_socket() -> None:
    connection.connection.close()


@pytest.mark.parametrize("ends", ["at a statement", "at the commit"])
@pytest.mark.parametrize("lose", [freeze, close_socket, lambda: terminate(session())])
async def test_work_whose_session_ended_in_a_transaction_is_tried_again(
    turn: Turn, lose: Callable[[], None], ends: str
) -> None:
    tries: list[int] = []

    def rename() -> None:
        tries.append(1)
        with transaction.atomic():
            Conversation.objects.update(title="Half")
            if len(tries) == 1:
                lose()
            if ends == "at a statement":
                Conversation.objects.update(title="Whole")

    lease = await in_database(acquire, turn.pk)
    assert lease is not None
    await retry_in_database(lease, rename)
    assert len(tries) == 2
    assert (await in_database(Conversation.objects.get)).title in ("Half", "Whole")


# --- in which order rows are locked --------------------------------------------------------
def send(conversation: Conversation) -> Turn:
    return intake.receive(conversation.owner, conversation, text="And this?", model=scripted.MODEL)


def try_again(conversation: Conversation) -> Turn:
    return retry.ask_again(conversation, conversation.owner, scripted.MODEL)


def plan(conversation: Conversation) -> None:
    intake.switch_mode(conversation, Conversation.Mode.PLAN)


def take_summary_back(conversation: Conversation) -> None:
    answer = conversation.turns.get().answer
    part = Part.objects.create(message=answer, position=SUMMARISED, kind=Part.Kind.NOTICE)
    summary = Summary.objects.create(conversation=conversation, part=part, turns=1, text="Notes.")
    summaries.switch_summary(summary, is_used=False)


ACTS = [send, try_again, plan, take_summary_back]
WAITING = "SELECT count(*) FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"


def done_or_refused(act: Callable[[Conversation], object], conversation: Conversation) -> int:
    try:
        act(conversation)
    except Refused as refused:
        return refused.status
    finally:
        connection.close()
    return 200


def until_somebody_waits() -> None:
    """Return once another session waits for this one."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with connection.cursor() as cursor:
            cursor.execute(WAITING)
            if cursor.fetchone()[0]:
                return
    raise AssertionError("nobody waits for the turn")


@pytest.mark.parametrize("act", ACTS)
def test_what_a_person_does_waits_for_who_holds_the_turn_and_blocks_them_nowhere(
    turn: Turn, act: Callable[[Conversation], object]
) -> None:
    Turn.objects.update(state=Turn.State.STOPPED)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            intake.lock_latest(turn.conversation)
            acting = pool.submit(done_or_refused, act, turn.conversation)
            until_somebody_waits()
            Conversation.objects.update(title="Locked after the turn")
        assert acting.result(60) == 200


@pytest.mark.parametrize("first", [send, try_again])
@pytest.mark.parametrize("second", [send, try_again])
def test_of_two_that_begin_an_answer_at_once_the_later_one_is_told(
    turn: Turn,
    first: Callable[[Conversation], object],
    second: Callable[[Conversation], object],
) -> None:
    Turn.objects.update(state=Turn.State.STOPPED)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first(turn.conversation)
            acting = pool.submit(done_or_refused, second, turn.conversation)
            until_somebody_waits()
        assert acting.result(60) == 409
    assert Turn.objects.filter(state__in=Turn.LIVE).count() == 1


def run_echo(call: ToolCall, catalogue: Catalogue) -> None:
    try:
        lease = acquire(call.turn_id)
        assert lease is not None
        own_tool_execution._run(lease, call.pk, catalogue, own_tool_execution.Prepared())
    finally:
        connection.close()


def logged(*_: object) -> Echo:
    """What a handler changes may be logged."""
    audit_log.append([audit_log.AuditEvent(kind=audit_log.Kind.SERVICE, data={})])
    return Echo(words="")


def test_a_core_tool_that_waits_for_its_chat_keeps_nobody_from_the_log(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two would wait for each other: the call for the chat, its holder for the log's end."""
    offer(monkeypatch, logged)
    call = rows.call(
        turn, {}, ToolCall.State.APPROVED, tool_id="echo", tool_name="echo", service=None
    )
    tool = core_tool("echo")
    assert tool is not None
    owner = turn.conversation.owner
    ToolCall.objects.update(binding=compute_core_binding(call, tool, owner))
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Conversation.objects.update(title="Held")
            running = pool.submit(run_echo, call, load_known_catalogue(owner))
            until_somebody_waits()
            audit_log.append([audit_log.AuditEvent(kind=audit_log.Kind.POLICY, data={})])
        running.result(60)
    assert ToolCall.objects.get().state == ToolCall.State.SUCCEEDED


# --- limits of a day ---------------------------------------------------------------------------
def proposed(turn: Turn, service: Service) -> ToolCall:
    of_tool = {"tool_id": "notebook_read_note", "tool_name": "read_note", "service": service}
    return rows.call(turn, {"title": "Old ideas"}, ToolCall.State.PROPOSED, **of_tool)


def decided(call: ToolCall) -> str:
    try:
        lease = acquire(call.turn_id)
        assert lease is not None
        person = call.turn.conversation.owner
        decide_calls(lease, (call.pk,), load_known_catalogue(person))
        return ToolCall.objects.get(pk=call.pk).state
    finally:
        connection.close()


def test_of_two_chats_that_decide_at_once_one_has_the_last_use_of_the_day(
    turn: Turn, confirmed: Service
) -> None:
    ToolLimit.objects.create(tool="read_note", calls=1)
    here = proposed(turn, confirmed)
    there = proposed(rows.turn(turn.conversation.owner, Turn.State.QUEUED), confirmed)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            lock_person(turn.conversation.owner)
            acting = pool.submit(decided, there)
            until_somebody_waits()
            ToolCall.objects.filter(pk=here.pk).update(state=ToolCall.State.APPROVED)
        assert acting.result(60) == ToolCall.State.AWAITING_APPROVAL
