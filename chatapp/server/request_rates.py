"""Requests per minute, for each person and in all, as this server process counts them."""

import math
import time
from threading import Lock

from django.utils.translation import ngettext
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from .runtime import current_runtime

# How many times the limit of one person all people together may reach.
PEOPLE_AT_ONCE = 10

# MemoryStorage starts a timer with each count, and fails if two threads start it at the same time.
_counting = Lock()


class TooManyRequests(Exception):
    """More requests than the limit arrived within a minute."""

    def __init__(self, wait_seconds: int) -> None:
        super().__init__(
            ngettext("Wait %(count)s second.", "Wait %(count)s seconds.", wait_seconds)
            % {"count": wait_seconds}
        )
        self.wait_seconds = wait_seconds

    @property
    def hint(self) -> str:
        return ngettext(
            "Try again in %(count)s second.", "Try again in %(count)s seconds.", self.wait_seconds
        ) % {"count": self.wait_seconds}


def count_request(kind: str, who: str, per_minute: int) -> None:
    """Count a request of `kind` by `who`. Raises TooManyRequests beyond `per_minute` of one, or ten
    times as many of all. A request that is refused is not counted."""
    one = RateLimitItemPerMinute(per_minute)
    all_together = RateLimitItemPerMinute(per_minute * PEOPLE_AT_ONCE)
    with _counting:
        limiter = _get_limiter()
        if not limiter.test(all_together, kind):
            raise _build_refusal(limiter, all_together, kind)
        if not limiter.hit(one, kind, who):
            raise _build_refusal(limiter, one, kind, who)
        limiter.hit(all_together, kind)


def _build_refusal(
    limiter: SlidingWindowCounterRateLimiter, limit: RateLimitItemPerMinute, *names: str
) -> TooManyRequests:
    reset = limiter.get_window_stats(limit, *names).reset_time
    return TooManyRequests(max(1, math.ceil(reset - time.time())))


def _get_limiter() -> SlidingWindowCounterRateLimiter:
    runtime = current_runtime()
    if not isinstance(runtime.request_counts, SlidingWindowCounterRateLimiter):
        runtime.request_counts = SlidingWindowCounterRateLimiter(MemoryStorage())
    return runtime.request_counts
