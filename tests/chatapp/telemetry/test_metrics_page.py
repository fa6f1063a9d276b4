"""`/metrics`: who may read it, and that it answers while the database does not."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from prometheus_client import Metric
from prometheus_client.registry import Collector

from chatapp.engine import backlog
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Turn
from chatapp.server.database import close_threads, in_database
from chatapp.server.runtime import current_runtime
from chatapp.telemetry import metrics
from chatapp.telemetry.metrics import BoundedNames
from chatapp.views import metrics as page
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.server.test_serve import manage
from tests.scripted import calls
from tests.turns.acts import DELETE, wait_for_rest

from .reading import read_samples

TOKEN = "a-token-of-many-letters"
BEARER = f"Bearer {TOKEN}"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _token(settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN


def get(client: Client, **headers: str) -> Any:
    host = headers.pop("host", "127.0.0.1")
    return client.get("/metrics", headers={"Authorization": BEARER} | headers, HTTP_HOST=host)


def test_with_the_token_they_are_read(client: Client) -> None:
    response = get(client)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=")
    assert "no-store" in response["Cache-Control"]
    samples = read_samples(response.content.decode())
    assert samples["countersign_database_up", frozenset()] == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_proxy_on_this_machine_that_adds_no_header_reads_nothing(
    client: Client, host: str
) -> None:
    """nginx with only `proxy_pass` sends its own address and the host of the upstream."""
    response = client.get("/metrics", REMOTE_ADDR="127.0.0.1", HTTP_HOST=host)
    assert response.status_code == 401
    assert b"countersign_" not in response.content


def test_a_signed_in_admin_needs_the_token_too(admin_client: Client) -> None:
    assert admin_client.get("/metrics", HTTP_HOST="127.0.0.1").status_code == 401


def test_without_the_setting_a_token_is_made_and_kept(tmp_path: Path) -> None:
    show = "from django.conf import settings; print(settings.METRICS_TOKEN)"
    ran = [manage(tmp_path, "shell", "-v", "0", "-c", show).stdout for _ in range(2)]
    assert ran[0] == ran[1]
    assert len(ran[0].strip()) >= 32
    [kept] = tmp_path.rglob("metrics_token")
    assert kept.read_text() == ran[0].strip()
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        TOKEN,
        f"Basic {TOKEN}",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer é",
    ],
)
def test_with_a_token_only_the_token_counts(client: Client, authorization: str) -> None:
    refused = get(client, Authorization=authorization)
    assert refused.status_code == 401
    assert refused["WWW-Authenticate"] == "Bearer"
    assert b"countersign_" not in refused.content


def test_the_token_opens_them_from_anywhere(client: Client, settings: Any) -> None:
    settings.PUBLIC_URL = "https://chat.example"
    settings.ALLOWED_HOSTS = ["chat.example"]
    headers = {"X-Forwarded-For": "192.0.2.7"}
    assert get(client, host="chat.example", **headers).status_code == 200


def test_the_event_loop_does_not_wait_for_the_text(client: Client) -> None:
    in_loop: list[bool] = []

    class Watch(Collector):
        def collect(self) -> list[Metric]:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                in_loop.append(False)
            else:
                in_loop.append(True)
            return []

    watch = Watch()
    metrics.REGISTRY.register(watch)
    in_loop.clear()
    try:
        assert get(client).status_code == 200
    finally:
        metrics.REGISTRY.unregister(watch)
    assert in_loop == [False]


def test_other_methods_are_refused(client: Client) -> None:
    assert client.post("/metrics").status_code == 405


def test_they_answer_while_the_database_does_not(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connections["default"]
    close_threads()
    monkeypatch.setitem(connection.settings_dict, "NAME", "/nowhere/at/all.sqlite3")
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", "9")
    response = get(client)
    close_threads()
    assert response.status_code == 200
    samples = read_samples(response.content.decode())
    assert samples["countersign_database_up", frozenset()] == 0
    assert not any(name == "countersign_turns" for name, _labels in samples)


def test_they_answer_while_the_database_hangs(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(page, "read_backlog", lambda: is_over.wait(60))
    monkeypatch.setattr(page, "WAIT_SECONDS", 0.05)
    response = get(client)
    is_over.set()
    samples = read_samples(response.content.decode())
    assert samples["countersign_database_up", frozenset()] == 0


def test_the_database_is_asked_every_few_seconds_only(
    client: Client, django_assert_num_queries: Any
) -> None:
    get(client)
    read_at, kept = current_runtime().backlog
    current_runtime().backlog = (
        read_at,
        (backlog.Backlog(turns={"queued": 7}, abandoned=0, requests={}), {"due": 3}),
    )
    samples = read_samples(get(client).content.decode())
    assert samples["countersign_turns", frozenset({("state", "queued")})] == 7
    assert samples["countersign_tasks", frozenset({("state", "due")})] == 3
    current_runtime().backlog = (float("-inf"), kept)
    samples = read_samples(get(client).content.decode())
    assert samples["countersign_turns", frozenset({("state", "queued")})] == 0


async def test_open_requests_and_turns_are_counted(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    before = await in_database(backlog.read_backlog)
    assert (before.turns["queued"], before.requests["approval"]) == (1, 0)
    scripted.scenes.append(calls(DELETE))
    await wait_for_rest(runtime, turn)
    found = await in_database(backlog.read_backlog)
    assert (found.turns["queued"], found.turns["waiting"]) == (0, 1)
    assert found.requests == {
        "approval": 1,
        "second_signature": 0,
        "question": 0,
        "sign_in": 0,
        "unknown_outcome": 0,
        "review": 0,
    }


def test_names_are_bounded() -> None:
    names = BoundedNames(2)
    assert [names.bound(each) for each in ("a", "b", "c", "a")] == ["a", "b", metrics.OTHER, "a"]


def test_a_private_service_has_no_name_in_labels(owner: Any) -> None:
    shared = Service(name="weather", url="https://weather.example/mcp", visibility="everyone")
    own = Service(
        name="my-diary", url="https://diary.example/mcp", owner=owner, visibility="everyone"
    )
    labels = [metrics.label_service(each) for each in (shared, own, None)]
    assert labels == ["weather", "own", "none"]
