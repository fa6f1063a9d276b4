"""What only PostgreSQL can show. `test_on_postgresql.py` runs this file there."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection, transaction

from chatapp.models import Conversation, Part, Summary, ToolCall, ToolLimit, Turn
from chatapp.storage import close_threads, in_database
from chatapp.tools.catalogue import Catalogue, known_catalogue
from chatapp.tools.core import core_tool
from chatapp.turns import asking_again, core_execution, intake, log, summaries
from chatapp.turns.core_calls import binding_of_core
from chatapp.turns.daily_uses import one_at_a_time
from chatapp.turns.deciding import decide_calls
from chatapp.turns.lease import acquire
from chatapp.turns.refusals import Refused
from chatapp.turns.top_notices import SUMMARISED
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.views import rows

from .core_turns import Echo, offer
from .test_consents import confirmed

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


# --- in which order rows are locked --------------------------------------------------------
def send(conversation: Conversation) -> Turn:
    return intake.receive(conversation.owner, conversation, text="And this?", model=scripted.MODEL)


def try_again(conversation: Conversation) -> Turn:
    return asking_again.ask_again(conversation, conversation.owner, scripted.MODEL)


def plan(conversation: Conversation) -> None:
    intake.switch_mode(conversation, Conversation.Mode.PLAN)


def take_summary_back(conversation: Conversation) -> None:
    answer = conversation.turns.get().answer
    part = Part.objects.create(message=answer, position=SUMMARISED, kind=Part.Kind.NOTICE)
    summary = Summary.objects.create(conversation=conversation, part=part, turns=1, text="Notes.")
    summaries.use(summary, is_used=False)


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
        assert acting.result(10) == 200


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
        assert acting.result(10) == 409
    assert Turn.objects.filter(state__in=Turn.LIVE).count() == 1


def run_echo(call: ToolCall, catalogue: Catalogue) -> None:
    try:
        lease = acquire(call.turn_id)
        assert lease is not None
        core_execution._run(lease, call.pk, catalogue, core_execution.Prepared())
    finally:
        connection.close()


def logged(*_: object) -> Echo:
    """What a handler changes may be logged."""
    log.append([log.Happening(kind=log.Kind.SERVICE, data={})])
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
    ToolCall.objects.update(binding=binding_of_core(call, tool, owner))
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Conversation.objects.update(title="Held")
            running = pool.submit(run_echo, call, known_catalogue(owner))
            until_somebody_waits()
            log.append([log.Happening(kind=log.Kind.POLICY, data={})])
        running.result(10)
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
        decide_calls(lease, (call.pk,), known_catalogue(person))
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
            one_at_a_time(turn.conversation.owner)
            acting = pool.submit(decided, there)
            until_somebody_waits()
            ToolCall.objects.filter(pk=here.pk).update(state=ToolCall.State.APPROVED)
        assert acting.result(10) == ToolCall.State.AWAITING_APPROVAL
