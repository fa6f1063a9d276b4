"""Tasks of tests: they note that they ran, fail, or wait."""

import threading

from django_tasks import task

ran: list[str] = []
threads: list[str] = []
begun = threading.Event()
released = threading.Event()


@task
def note(name: str) -> None:
    ran.append(name)


@task
def fail() -> None:
    ran.append("fail")
    raise ValueError("on purpose")


@task
def hold() -> None:
    threads.append(threading.current_thread().name)
    begun.set()
    released.wait(30)
    ran.append("hold")
