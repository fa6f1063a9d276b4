"""Requests per minute are counted for each person, and for all people together."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

import pytest
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.server.runtime import Runtime, current_runtime, using_runtime


def count_admitted(kind: str, who: str, per_minute: int, tries: int) -> int:
    admitted = 0
    for _ in range(tries):
        try:
            count_request(kind, who, per_minute)
        except TooManyRequests:
            continue
        admitted += 1
    return admitted


@pytest.fixture(autouse=True)
def runtime() -> Iterator[None]:
    with using_runtime(Runtime()):
        yield


def test_each_person_has_a_limit_of_their_own() -> None:
    assert count_admitted("api", "1", 5, 9) == 5
    assert count_admitted("api", "2", 5, 9) == 5


def test_kinds_are_counted_apart() -> None:
    assert count_admitted("api", "1", 5, 9) == 5
    assert count_admitted("uploads", "1", 5, 9) == 5


def test_all_together_have_a_limit() -> None:
    admitted = [count_admitted("api", str(person), 5, 5) for person in range(20)]
    assert sum(admitted) == 50


def test_a_refusal_says_when_to_come_back() -> None:
    count_request("api", "1", 1)
    with pytest.raises(TooManyRequests) as refusal:
        count_request("api", "1", 1)
    assert 1 <= refusal.value.wait_seconds <= 120
    assert str(refusal.value.wait_seconds) in refusal.value.hint


def test_a_refused_request_does_not_count_against_the_others() -> None:
    assert count_admitted("api", "1", 5, 1_000) == 5
    assert count_admitted("api", "2", 5, 5) == 5


def test_two_threads_never_use_the_storage_at_the_same_time() -> None:
    together = Barrier(2)

    class Watched(MemoryStorage):
        def incr(self, *args: float | str, **kwargs: float | str) -> int:
            with contextlib.suppress(BrokenBarrierError):
                together.wait(timeout=1)
                overlaps.append(args)
            return super().incr(*args, **kwargs)  # type: ignore[arg-type]

    overlaps: list[object] = []
    current_runtime().request_counts = SlidingWindowCounterRateLimiter(Watched())
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(count_request, "api", person, 5) for person in ("1", "2")]
        for future in futures:
            future.result(timeout=30)
    assert overlaps == []
