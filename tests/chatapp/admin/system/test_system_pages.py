"""The pages about the system: what they say, that they say no secret, and who may rotate keys."""

import re
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from cryptography.fernet import Fernet
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp.admin.system.cards import TASKS
from chatapp.audit import anchors, last_runs
from chatapp.background.schedule import RECURRING
from chatapp.models import LastRun, LogEntry, Member, TaskSchedule, Worker
from chatapp.server.environment import Environment
from mcpconfig.models import Service
from mcpconfig.secrets import credentials, encryption
from mcpconfig.services.secret_rotation import iterate_stored_secrets
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db
MOST_STATEMENTS = 25
CANARY = "canary-secret-0123456789"
# Settings of providers, which have pages of their own, of OpenTelemetry, and of a bucket.
READ_ELSEWHERE = ("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "AWS_", "OTEL_", "S3_")
DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "configuration.md"


def read(client: Client, path: str) -> str:
    answer: Any = client.get(path, follow=True)
    assert answer.status_code == 200
    return " ".join(BeautifulSoup(answer.content, "html.parser").get_text(" ").split())


@pytest.fixture
def old_key(settings: LazySettings) -> str:
    """The only key, under which one secret is stored."""
    key = Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [key]
    service = Service.objects.create(
        name="one", url="https://one.example/mcp", authentication="bearer", visibility="everyone"
    )
    credentials.set_bearer(service, CANARY)
    return key


@pytest.fixture
def keeper(stranger: Member) -> Member:
    """An admin who may read the state of the system, and nothing else."""
    stranger.is_staff, stranger.rights = True, ["system"]
    stranger.save()
    return stranger


# --- the state of the system -------------------------------------------------------------------
def test_the_page_says_what_runs_where_it_is_stored_and_how_long(admin: Member) -> None:
    TaskSchedule.objects.create(name="prune_traces")
    client = signed_in(admin)
    with CaptureQueriesContext(connection) as statements:
        text = read(client, "/admin/system/")
    for words in ("Versions", "MCP SDK", "all applied", "Free on the disk", "14 days", "Anchors"):
        assert words in text
    assert "Delete old traces" in text
    assert len(statements) <= MOST_STATEMENTS


def test_every_recurring_task_has_a_name_on_the_page() -> None:
    assert {each.name for each in RECURRING} == set(TASKS)


def test_the_log_is_shown_only_to_who_may_view_it(keeper: Member) -> None:
    keeper.rights = ["system"]
    keeper.save()
    assert "Activity log" not in read(signed_in(keeper), "/admin/system/").replace(
        "Chats, tool calls and the activity log", ""
    )


# --- settings ----------------------------------------------------------------------------------
def test_every_documented_setting_is_listed_with_its_source(admin: Member) -> None:
    text = read(signed_in(admin), "/admin/system/settings/")
    documented = set(re.findall(r"^\| `([A-Z][A-Z0-9_]+)`", DOCUMENT.read_text(), re.M))
    assert len(documented) > 60
    missing = documented.difference(text.split())
    assert [name for name in missing if not name.startswith(READ_ELSEWHERE)] == []


def test_a_setting_that_may_hold_a_secret_is_never_shown(
    admin: Member, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = Environment()
    monkeypatch.setenv("REDIS_URL", f"redis://user:{CANARY}@host/0")
    monkeypatch.setenv("LEASE_SECONDS", "17")
    env.str("REDIS_URL", default="")
    env.float("LEASE_SECONDS", default=15)
    env.int("TURN_MAX_STEPS", default=25)
    settings.ENV = env
    text = read(signed_in(admin), "/admin/system/settings/")
    assert CANARY not in text
    assert (
        "LEASE_SECONDS 17 environment REDIS_URL set environment TURN_MAX_STEPS 25 default" in text
    )
    only_set = read(signed_in(admin), "/admin/system/settings/?set=yes")
    assert "TURN_MAX_STEPS" not in only_set
    assert "LEASE_SECONDS 17" in only_set


def test_a_value_of_the_env_file_is_told_apart_and_the_environment_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEASE_SECONDS", "SWEEP_SECONDS"):
        monkeypatch.setenv(name, "3")
    monkeypatch.delenv("SWEEP_SECONDS")
    (tmp_path / ".env").write_text("SWEEP_SECONDS=4\nLEASE_SECONDS=5\n")
    env = Environment()
    env.read_file(tmp_path / ".env")
    assert (env.float("LEASE_SECONDS", default=1), env.float("SWEEP_SECONDS", default=1)) == (3, 4)
    assert [(each.source, each.text) for each in env.list_read()] == [
        ("environment", "3"),
        ("file", "4"),
    ]


# --- keys --------------------------------------------------------------------------------------
def test_secrets_are_encrypted_with_the_newest_key_and_it_is_recorded(
    admin: Member, old_key: str, settings: LazySettings
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), old_key]
    client = signed_in(admin)
    assert "Encrypted with an older key 1" in read(client, "/admin/system/keys/")
    answer: Any = client.post("/admin/system/keys/", follow=True)
    assert "1 secret was encrypted with the newest key." in answer.content.decode()
    settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS[:1]
    text = read(client, "/admin/system/keys/")
    assert "Encrypted with an older key 0" in text
    assert "the oldest since" in text
    entry = LogEntry.objects.filter(kind=LogEntry.Kind.SECRETS_ROTATED).get()
    assert entry.actor_id == admin.pk
    assert "Encrypted: 1. Already current: 0." in read(client, "/admin/chatapp/logentry/")


def test_a_secret_that_no_key_opens_is_named_without_its_value(
    admin: Member, old_key: str, settings: LazySettings
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    client = signed_in(admin)
    text = read(client, "/admin/system/keys/")
    assert "Some stored secrets cannot be read." in text
    assert CANARY not in text
    answer: Any = client.post("/admin/system/keys/", follow=True)
    assert "No key opens some secrets." in answer.content.decode()


def test_who_may_only_read_the_system_rotates_nothing(
    keeper: Member, old_key: str, settings: LazySettings
) -> None:
    keeper.rights = ["system"]
    keeper.save()
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), old_key]
    client = signed_in(keeper)
    assert "Encrypt with the newest key" not in read(client, "/admin/system/keys/").replace(
        "Encrypt them with the newest key", ""
    )
    assert client.post("/admin/system/keys/").status_code == 403
    assert not LogEntry.objects.filter(kind=LogEntry.Kind.SECRETS_ROTATED).exists()
    assert not any(
        encryption.is_under_first_key(secret.token) for secret in iterate_stored_secrets()
    )


# --- workers and last runs -----------------------------------------------------------------------
def make_worker(**values: Any) -> Worker:
    shared = {"id": uuid.uuid4(), "kind": "server", "host": "mill", "pid": 7, "version": "1.2"}
    return Worker.objects.create(**shared | values)


def test_the_page_lists_each_process_and_what_it_does(admin_client: Client) -> None:
    make_worker()
    make_worker(pid=8, turns=2, runs_task=True)
    make_worker(kind="tasks", pid=9, beat_at=timezone.now() - timedelta(minutes=5))
    page = read(admin_client, "/admin/system/")
    assert "Server mill, process 7 idle version 1.2" in page
    assert "Server mill, process 8 busy: 2 turns, a background task" in page
    assert "Tasks mill, process 9 no longer reports" in page


def test_the_overview_counts_processes_that_report_and_the_busy_ones(admin_client: Client) -> None:
    make_worker()
    make_worker(runs_task=True)
    make_worker(turns=4, beat_at=timezone.now() - timedelta(minutes=5))
    assert "2 workers, 1 busy" in read(admin_client, "/admin/")


def test_the_page_says_when_a_backup_last_ran_and_how_it_ended(admin_client: Client) -> None:
    assert "Last backup not recorded yet" in read(admin_client, "/admin/system/")
    call_command("record_backup")
    assert "Last backup succeeded" in read(admin_client, "/admin/system/")
    call_command("record_backup", failed="The disk is full.")
    page = read(admin_client, "/admin/system/")
    assert "Last backup failed" in page
    assert "The disk is full. Last attempt:" in page and "Last success: never" not in page
    call_command("record_backup", failed="no space left\non device")
    assert "No space left on device. Last attempt:" in read(admin_client, "/admin/system/")


@pytest.mark.parametrize(
    ("name", "title", "seconds"),
    [
        (last_runs.BACKUP, "Last backup", 7 * 24 * 3_600),
        (last_runs.name_anchor("stdout"), "Anchor at stdout", 2 * 600),
    ],
)
def test_a_backup_or_an_anchor_that_stopped_is_overdue(
    admin_client: Client, settings: LazySettings, name: str, title: str, seconds: int
) -> None:
    settings.LOG_ANCHORS, settings.LOG_ANCHOR_SECONDS = ["stdout"], 600
    last_runs.record_run(name)
    for age, shown in ((seconds - 60, "succeeded"), (seconds + 60, "overdue Last success:")):
        at = timezone.now() - timedelta(seconds=age)
        LastRun.objects.update(at=at, succeeded_at=at)
        assert f"{title} {shown}" in read(admin_client, "/admin/system/")


def test_two_anchors_at_one_host_have_a_row_each(
    admin_client: Client, settings: LazySettings
) -> None:
    places = [f"https://safe.example/{part}" for part in ("one-secret", "other-secret")]
    settings.LOG_ANCHORS = places
    last_runs.record_anchor(places[0], "")
    last_runs.record_anchor(places[1], "It was full.")
    page = read(admin_client, "/admin/system/")
    assert "Anchor at https://safe.example (1) succeeded" in page
    assert "Anchor at https://safe.example (2) failed" in page
    assert "secret" not in " ".join(LastRun.objects.values_list("name", flat=True))


def test_the_page_says_when_each_anchor_was_written_and_how_it_ended(
    admin_client: Client, settings: LazySettings, tmp_path: Path
) -> None:
    good, bad = f"file:{tmp_path}/anchors", "file:/nowhere/at/all"
    settings.LOG_ANCHORS = [good, bad]
    assert read(admin_client, "/admin/system/").count("not recorded yet") == 3
    anchors.write_anchor(anchors.make_anchor())
    page = read(admin_client, "/admin/system/")
    assert f"Anchor at {good} succeeded" in page
    assert f"Anchor at {bad} failed No such file or directory. Last attempt:" in page
    assert "Last success: never." in page
