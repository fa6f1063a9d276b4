"""Threads whose order a seed decides, or nobody.

In an order, each stops before every statement outside a transaction (inside one, the database lets
nobody between) and goes on when it is its turn: what it read may be old by the time it acts on it.
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection

Act = Callable[[], None]
STEP_SECONDS = 60.0


class Order:
    """Who of several threads goes on next, one at a time."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.failures: list[Exception] = []
        self._alive: set[int] = set()
        self._waiting: dict[int, threading.Event] = {}
        self._changed = threading.Condition()

    def run(self, acts: Sequence[Act]) -> None:
        self._alive = set(range(len(acts)))
        threads = [threading.Thread(target=self._live, args=(n, act)) for n, act in enumerate(acts)]
        for thread in threads:
            thread.start()
        while self._one_goes_on():
            pass
        for thread in threads:
            thread.join(STEP_SECONDS)
        if self.failures:
            raise self.failures[0]

    def _one_goes_on(self) -> bool:
        """Once everybody stands still, let one go on; False when nobody is left."""
        with self._changed:
            is_still = self._changed.wait_for(
                lambda: self._waiting.keys() == self._alive, STEP_SECONDS
            )
            assert is_still, "Somebody neither stops nor ends."
            if not self._alive:
                return False
            self._waiting.pop(self.chance.choice(sorted(self._waiting))).set()
            return True

    def _arrive(self, number: int) -> None:
        mine = threading.Event()
        with self._changed:
            self._waiting[number] = mine
            self._changed.notify_all()
        assert mine.wait(STEP_SECONDS), "It never was its turn."

    @contextmanager
    def _stopping_before_begin(self, number: int) -> Iterator[None]:
        """On SQLite, a thread takes its turn among the transactions of this process before it
        executes BEGIN, and would keep it while it stops there."""
        wrapper: Any = connection
        if connection.vendor != "sqlite":
            yield
            return
        begin = wrapper._start_transaction_under_autocommit

        def stop_and_begin() -> None:
            self._arrive(number)
            begin()

        wrapper._start_transaction_under_autocommit = stop_and_begin
        try:
            yield
        finally:
            wrapper._start_transaction_under_autocommit = begin

    def _live(self, number: int, act: Act) -> None:
        def before(execute: Any, sql: str, *rest: Any) -> Any:
            if not (connection.in_atomic_block or sql.startswith("BEGIN")):
                self._arrive(number)
            return execute(sql, *rest)

        try:
            self._arrive(number)
            with connection.execute_wrapper(before), self._stopping_before_begin(number):
                act()
        except Exception as failure:
            self.failures.append(failure)
        finally:
            connection.close()
            with self._changed:
                self._alive.discard(number)
                self._changed.notify_all()


def at_once(acts: Sequence[Act]) -> None:
    """All of them at the same moment, as the database lets them."""
    together = threading.Barrier(len(acts))
    failures: list[Exception] = []

    def live(act: Act) -> None:
        together.wait(STEP_SECONDS)
        try:
            act()
        except Exception as failure:
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=live, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STEP_SECONDS)
    if failures:
        raise failures[0]
