"""Metrics and logs of real servers, with one worker and with several."""

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatapp.telemetry import metrics
from tests.flows.server import REDIS, Installation, Server, database, eventually

from .reading import read_samples

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
REQUESTS = 40


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with database("sqlite", tmp_path) as url:
        made = Installation(
            tmp_path,
            DATABASE_URL=url,
            REDIS_URL=f"{REDIS}/10",
            LOG_FORMAT="json",
            DJANGO_SETTINGS_MODULE="chatapp.settings",
        )
        server = made.server("metrics")
        server.workers = 2
        server.start()
        yield server
        made.close()


def get(server: Server, path: str, **headers: str) -> tuple[str, str]:
    """The body, and the id of the request. A connection each, so that all workers are asked."""
    request = urllib.request.Request(server.address + path, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return answer.read().decode(), answer.headers["X-Request-ID"]


def count_answers(server: Server) -> float:
    token = (server.log_path.parent / "metrics_token").read_text()
    samples = read_samples(get(server, "/metrics", Authorization=f"Bearer {token}")[0])
    labels = frozenset({("method", "GET"), ("status", "200")})
    return samples.get(("countersign_http_responses_total", labels), 0)


def list_workers(server: Server) -> set[int]:
    """The processes that have said something, as the names of their files show."""
    names = {each.stem.rpartition("_")[2] for each in list_files(server)}
    return {int(name) for name in names - {metrics.ENDED}}


def list_files(server: Server, pattern: str = "*.db") -> list[Path]:
    return list((server.log_path.parent / "metrics").glob(f"*/{pattern}"))


def test_all_workers_are_in_each_answer_and_one_that_died_keeps_its_counts(server: Server) -> None:
    for _ in range(REQUESTS):
        get(server, "/healthz")
    assert all(count_answers(server) >= REQUESTS for _ in range(6))
    first = list_workers(server)
    assert len(first) >= 2
    victim = max(first)
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: not list_files(server, f"*_{victim}.db"), "its files are merged", 120)
    eventually(lambda: len(list_workers(server)) >= len(first), "a new worker says something", 120)
    assert count_answers(server) >= REQUESTS
    server.send(signal.SIGTERM)
    server.wait()
    assert list_files(server) == []
    server.start()
    assert count_answers(server) < REQUESTS


def test_a_served_request_is_logged_as_json_with_its_id(server: Server) -> None:
    request_id = "an-id-of-this-test"
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(server, "/nowhere", **{"X-Request-ID": request_id})
    assert refused.value.headers["X-Request-ID"] == request_id
    eventually(lambda: request_id in server.log, "the entry is written")
    entries = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    (entry,) = [entry for entry in entries if entry.get("request_id") == request_id]
    assert (entry["level"], entry["logger"]) == ("WARNING", "django.request")
    assert get(server, "/healthz")[1] != request_id
