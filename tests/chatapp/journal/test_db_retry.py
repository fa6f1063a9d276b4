"""What outlasts its caller, and what outlasts a database that is away."""

import asyncio
import logging
import uuid
from itertools import islice

import pytest
from django.db import InterfaceError, OperationalError

from chatapp.journal.db_retry import (
    LONGEST_WAIT_SECONDS,
    backoff_seconds,
    retry_in_database,
    run_uninterrupted,
)
from chatapp.journal.lease import Lease, LeaseLost
from tests.turns.faults import Away


def fresh() -> Lease:
    return Lease(turn_id=uuid.uuid4(), conversation_id=uuid.uuid4(), owner="me", fence=1)


def stale() -> Lease:
    lease = fresh()
    lease.renewed -= 3600
    return lease


class Work:
    """Work that waits in the middle."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.is_done = False

    async def do(self) -> str:
        self.begun.set()
        await self.goes_on.wait()
        self.is_done = True
        return "done"


async def test_work_that_nobody_cancels_gives_its_result() -> None:
    work = Work()
    work.goes_on.set()
    assert await run_uninterrupted(work.do()) == "done"


async def test_work_that_fails_says_so() -> None:
    async def fail() -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        await run_uninterrupted(fail())


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelled_work_comes_to_its_end_before_its_caller_is_cancelled(times: int) -> None:
    work = Work()
    caller = asyncio.create_task(run_uninterrupted(work.do()))
    await work.begun.wait()
    for _ in range(times):
        caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
    work.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.is_done


@pytest.mark.parametrize(("error", "level"), [(LeaseLost(), "INFO"), (ValueError("a"), "ERROR")])
async def test_what_goes_wrong_after_the_caller_was_cancelled_is_logged(
    caplog: pytest.LogCaptureFixture, error: Exception, level: str
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        begun.set()
        await goes_on.wait()
        raise error

    caller = asyncio.create_task(run_uninterrupted(fail()))
    await begun.wait()
    caller.cancel()
    goes_on.set()
    with caplog.at_level(logging.INFO), pytest.raises(asyncio.CancelledError):
        await caller
    records = [each for each in caplog.records if each.name == "chatapp.journal.db_retry"]
    assert [record.levelname for record in records] == [level]


async def test_a_database_that_is_away_for_a_moment_is_asked_again() -> None:
    work = Away(lambda: "stored", 2)
    assert await retry_in_database(fresh(), work) == "stored"
    assert work.failures == 2


async def test_a_stale_lease_ends_the_patience() -> None:
    work = Away(lambda: "stored", 9)
    with pytest.raises(OperationalError):
        await retry_in_database(stale(), work)
    assert work.failures == 1


async def test_work_that_is_refused_although_the_lease_is_renewed_ends_within_a_bound(
    settings: pytest.FixtureRequest,
) -> None:
    settings.LEASE_SECONDS = 0.5  # type: ignore[attr-defined]
    lease = fresh()
    lease.renewed += 3600  # as if it were renewed again and again
    work = Away(lambda: "stored", 1000)
    async with asyncio.timeout(60):
        with pytest.raises(OperationalError):
            await retry_in_database(lease, work)
    assert 1 < work.failures < 10


async def test_a_connection_that_is_closed_counts_as_away() -> None:
    tries: list[int] = []

    def work() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise InterfaceError("the connection is closed")
        return "stored"

    assert await retry_in_database(fresh(), work) == "stored"


async def test_an_error_of_another_kind_is_not_tried_again() -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        raise LeaseLost

    with pytest.raises(LeaseLost):
        await retry_in_database(fresh(), work)
    assert len(tries) == 1


def test_waits_grow_to_a_bound() -> None:
    first = list(islice(backoff_seconds(), 10))
    assert first == sorted(first)
    assert first[0] < 0.5
    assert first[-1] == LONGEST_WAIT_SECONDS
