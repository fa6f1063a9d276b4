"""The limit of the waits for a stream, one after another."""

import asyncio

import pytest

from chatapp.providers.stream_reading import WaitLimit

LONG = 60.0


async def wait_for_ever() -> None:
    await asyncio.sleep(LONG)
    raise AssertionError("the limit did not end the wait")


def count_cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def test_a_wait_that_takes_too_long_is_a_timeout_and_no_cancellation() -> None:
    limit = WaitLimit()
    for _ in range(2):
        with pytest.raises(TimeoutError), limit.within(0):
            await wait_for_ever()
        assert count_cancellations() == 0


async def test_a_shorter_limit_counts_after_a_longer_one() -> None:
    limit = WaitLimit()
    with limit.within(LONG):
        pass
    with pytest.raises(TimeoutError), limit.within(0):
        await wait_for_ever()


async def test_a_longer_limit_counts_after_a_shorter_one() -> None:
    """The timer of the first fires while the second waits."""
    limit, is_over = WaitLimit(), asyncio.Event()
    with limit.within(0):
        pass
    with limit.within(LONG):
        asyncio.get_running_loop().call_later(0.01, is_over.set)
        await is_over.wait()
    limit.close()


async def test_the_second_of_two_waits_has_a_limit_too() -> None:
    limit = WaitLimit()
    with limit.within(0):
        pass
    with pytest.raises(TimeoutError), limit.within(0.05):
        await wait_for_ever()


async def test_a_timer_between_two_waits_does_nothing() -> None:
    limit, loop, is_past, errors = WaitLimit(), asyncio.get_running_loop(), asyncio.Event(), []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))
    with limit.within(0):
        pass
    loop.call_later(0.01, is_past.set)  # timers fire in their order
    await is_past.wait()
    assert (count_cancellations(), errors) == (0, [])


async def test_who_is_cancelled_from_outside_is_cancelled() -> None:
    limit, is_waiting = WaitLimit(), asyncio.Event()

    async def wait() -> None:
        with limit.within(LONG):
            is_waiting.set()
            await wait_for_ever()

    task = asyncio.create_task(wait())
    await is_waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    limit.close()


async def test_a_cancellation_counts_more_than_the_limit() -> None:
    """Both come while the task waits."""
    limit = WaitLimit()

    async def wait() -> None:
        with limit.within(0):
            task = asyncio.current_task()
            assert task is not None
            try:
                await wait_for_ever()
            except asyncio.CancelledError:
                task.cancel()
                raise

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(wait())
