"""Sign-ins and renewals that several processes share."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from mcpconfig.models import OAuthGrant, Service
from mcpconfig.oauth.sign_in import AuthorizationRequest
from mcpconfig.values.acting import Acting

from .conftest import Browser, Peers, browse

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[3]


class Worker:
    """A process that acts on commands."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert self.read() == "ready\n"

    def read(self) -> str:
        assert self.process.stdout is not None
        limit = threading.Timer(60, self.process.kill)
        limit.start()
        line = self.process.stdout.readline()
        limit.cancel()
        return line

    def tell(self, do: str, **more: Any) -> None:
        assert self.process.stdin is not None
        told = {"do": do, "service": "vault", "person": "ada", **more}
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        heard: dict[str, Any] = json.loads(self.read())
        return heard


def database_url() -> str:
    told = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{told['NAME']}"
    return f"postgres://{told['USER']}@{told['HOST']}:{told['PORT'] or 5432}/{told['NAME']}"


@contextmanager
def worker() -> Iterator[Worker]:
    environment = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "VAR_DIR": str(settings.VAR_DIR),
        "LOG_LEVEL": "WARNING",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.mcpconfig.oauth.worker"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Worker(process)
    finally:
        process.kill()
        process.communicate(timeout=30)


@pytest.fixture
def workers() -> Iterator[Callable[[int], list[Worker]]]:
    with ExitStack() as stack:
        yield lambda count: [stack.enter_context(worker()) for _ in range(count)]


Workers = Callable[[int], list[Worker]]


async def make_due() -> None:
    past = timezone.now() - timedelta(seconds=1)
    await OAuthGrant.objects.aupdate(renew_at=past, expires_at=past)


async def test_twenty_calls_of_four_processes_ask_for_one_new_token(
    service: Service, ada: Acting, browser: Browser, peers: Peers, workers: Workers
) -> None:
    await browser.sign_in(service, ada)
    await make_due()
    four = await asyncio.to_thread(workers, 4)

    for one in four:
        one.tell("tokens", count=5)
    heard = [await asyncio.to_thread(one.hear) for one in four]

    tokens = [token for each in heard for token in each["came"]]
    assert peers.authority.grants("refresh_token") == 1
    assert (len(tokens), len(set(tokens))) == (20, 1)
    assert peers.authority.tokens[tokens[0]].subject == "ada"


async def test_a_sign_in_that_one_process_began_is_finished_by_another(
    service: Service, ada: Acting, peers: Peers, workers: Workers
) -> None:
    first, second = await asyncio.to_thread(workers, 2)
    first.tell("begin")
    url = (await asyncio.to_thread(first.hear))["came"]
    returned = await browse(AuthorizationRequest(url=url, host="", scopes=(), is_step_up=False))
    first.process.kill()

    second.tell("finish", returned=asdict(returned))
    assert await asyncio.to_thread(second.hear) == {"came": "connected"}

    second.tell("finish", returned=asdict(returned))
    assert await asyncio.to_thread(second.hear) == {"error": "sign_in_needed"}


async def test_a_process_that_is_killed_while_it_renews_does_not_end_the_sign_in(
    service: Service, ada: Acting, browser: Browser, peers: Peers, workers: Workers
) -> None:
    asked, killed = threading.Event(), threading.Event()

    async def hanging(scope: Any, receive: Any, send: Any) -> None:
        asked.set()
        await asyncio.to_thread(killed.wait, 30)

    await browser.sign_in(service, ada)
    await make_due()
    peers.authority.answers.append(hanging)
    first, second = await asyncio.to_thread(workers, 2)
    first.tell("tokens", count=1)
    assert await asyncio.to_thread(asked.wait, 30)
    first.process.kill()
    killed.set()
    grant = await OAuthGrant.objects.aget()
    assert grant.lease, "whoever died still holds it, until it is over"
    await OAuthGrant.objects.aupdate(lease_until=timezone.now() - timedelta(seconds=1))

    second.tell("tokens", count=1)

    assert len((await asyncio.to_thread(second.hear))["came"]) == 1
