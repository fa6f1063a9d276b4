"""Faults that tests plant: a database that goes away, and work that is held in the middle."""

import threading
from collections.abc import Callable
from typing import Any

from django.db import OperationalError

WORDS = "the server closed the connection unexpectedly"


class Away:
    """The database is away the first `times` that this work wants it; `loses_answers`: it does the
    work before it goes."""

    def __init__(
        self, work: Callable[..., Any], times: int, *, loses_answers: bool = False
    ) -> None:
        self.work = work
        self.times = times
        self.loses_answers = loses_answers
        self.failures = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.failures >= self.times:
            return self.work(*args, **kwargs)
        self.failures += 1
        if self.loses_answers:
            self.work(*args, **kwargs)
        raise OperationalError(WORDS)


class Held:
    """Work that stops before it begins until a test lets it go on."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work = work
        self.reached = threading.Event()
        self.released = threading.Event()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.reached.set()
        assert self.released.wait(60), "Nobody let it go on."
        return self.work(*args, **kwargs)


class Failing:
    """Work that goes wrong in a way that nobody foresaw, where `concerns` says so."""

    def __init__(
        self, work: Callable[..., Any], concerns: Callable[..., bool], error: Exception
    ) -> None:
        self.work = work
        self.concerns = concerns
        self.error = error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.concerns(*args, **kwargs):
            raise self.error
        return self.work(*args, **kwargs)
