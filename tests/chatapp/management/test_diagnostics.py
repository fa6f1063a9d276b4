"""`manage.py doctor`: what is in order is said to be so, and each planted fault is found."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import environ
import psycopg
import pytest
from cryptography.fernet import Fernet
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from chatapp.approvals.reminders import MAX_REFUSALS
from chatapp.background import jobs
from chatapp.management.diagnostics import connections, database, mail, settings, tasks
from chatapp.management.diagnostics.findings import Finding
from chatapp.models import MailPreference, Member, ModelProvider
from mcpconfig.models import Service
from mcpconfig.secrets import credentials
from tests.chatapp.server.test_serve import manage
from tests.chatapp.test_checks import SAFE_KEY
from tests.commands import Ran, database_at
from tests.flows.server import database as database_of
from tests.migrated import drop_postgresql, make_postgresql
from tests.peers.post_office import free_port, post_office
from tests.peers.serving import Served
from tests.peers.toolbox import Watch, application, toolbox

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _durable(transactional_db: None) -> Iterator[None]:
    """Set the durability of a real installation, which the settings of the tests give up."""
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous=FULL")
    yield
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous=OFF")


@pytest.fixture(autouse=True)
def _in_order(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SECRET_KEY = SAFE_KEY
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    settings.VAR_DIR = tmp_path
    settings.DEFAULT_MODEL = ""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def faults(findings: list[Finding]) -> list[str]:
    return [finding.message for finding in findings if finding.state != "good"]


def service(name: str = "wiki", url: str = "https://wiki.example/mcp", **more: Any) -> Service:
    return Service.objects.create(name=name, url=url, **{"visibility": "everyone", **more})


def test_an_installation_in_order_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key that is never tried")
    ran = Ran("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert {line.split()[0] for line in ran.out.splitlines()} == {"good"}
    subjects = {line[10:].split(":")[0] for line in ran.out.splitlines()}
    assert subjects >= {
        "settings",
        "addresses",
        "files",
        "models",
        "channel layer",
        "mail",
        "database",
        "clock",
        "secrets",
    }


def test_the_report_for_programs_has_everything() -> None:
    service(last_error={"kind": "refused", "message": "Nothing answers."})
    ran = Ran("doctor", "--json")
    assert ran.code == 1
    assert ran.json["ok"] is False
    assert ran.json["error"]["kind"] == "unwell"
    (found,) = [each for each in ran.json["findings"] if each["subject"] == "service wiki"]
    assert found["state"] == "wrong"
    assert found["hint"] == "Run: manage.py mcp test wiki"
    assert "Problems with: service wiki." in ran.err


def test_what_is_only_doubtful_is_no_failure() -> None:
    ran = Ran("doctor", "--json")
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert "doubtful" in {each["state"] for each in ran.json["findings"]}


# --- settings ----------------------------------------------------------------------------------
def test_unsafe_settings_are_all_listed(settings: Any) -> None:
    settings.SECRET_KEY = "short"
    settings.ALLOWED_HOSTS = ["*"]
    out = Ran("doctor").out
    assert "SECRET_KEY is short" in out
    assert "ALLOWED_HOSTS accepts every host" in out


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"PUBLIC_URL": "https://chat.example", "ALLOWED_HOSTS": ["127.0.0.1"]}, "not allowed"),
        ({"PUBLIC_URL": "https://chat.example", "ALLOWED_ORIGINS": []}, "are refused"),
        ({"PUBLIC_URL": "http://chat.example"}, "unencrypted"),
        ({"DEBUG": True}, "DEBUG is on"),
    ],
)
def test_addresses_that_lead_nowhere_are_found(
    settings: Any, values: dict[str, Any], fault: str
) -> None:
    url = values.get("PUBLIC_URL", "")
    settings.ALLOWED_HOSTS = ["chat.example"]
    settings.ALLOWED_ORIGINS = [url]
    for name, value in values.items():
        setattr(settings, name, value)
    (found,) = faults(check_addresses())
    assert fault in found


def check_addresses() -> list[Finding]:
    return settings.check_addresses()


@pytest.mark.parametrize(
    "url", ["", "https://chat.example", "https://a.chat.example:8443", "http://127.0.0.1:6740"]
)
def test_addresses_in_order_are_said_to_be_so(settings: Any, url: str) -> None:
    settings.PUBLIC_URL = url
    settings.ALLOWED_ORIGINS = [url]
    settings.ALLOWED_HOSTS = [".chat.example", "127.0.0.1"]
    assert faults(check_addresses()) == []


def test_a_folder_that_cannot_be_written_is_found(settings: Any, tmp_path: Path) -> None:
    settings.VAR_DIR = tmp_path / "nowhere"
    assert "can’t be written" in Ran("doctor").out


def test_keys_that_others_can_read_are_found(tmp_path: Path) -> None:
    kept = tmp_path / "encryption_key"
    kept.write_text("key")
    kept.chmod(0o640)
    (found,) = settings.check_files()
    assert (found.state, found.hint) == ("wrong", f"chmod 600 {kept}")
    kept.chmod(0o600)
    assert faults(settings.check_files()) == []


def test_a_full_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MIN_FREE_BYTES", 10**18)
    assert "nearly full" in faults(settings.check_files())[0]


@pytest.mark.parametrize(
    ("demo", "model", "fault"),
    [
        (False, "", "No model is set up"),
        (True, "openai:gpt-6-sol", "key"),
        (True, "nobody:model", "no model “nobody:model”"),
        (True, "", "Only the demo assistant"),
    ],
)
def test_models_that_cannot_be_asked_are_found(
    settings: Any, demo: bool, model: str, fault: str
) -> None:
    settings.DEMO, settings.DEFAULT_MODEL = demo, model
    assert fault in Ran("doctor").out


def test_a_provider_whose_key_is_missing_is_found() -> None:
    provider = ModelProvider.objects.create(slug="team", kind="openai", label="Team")
    assert "wrong     models: There is no key for Team" in Ran("doctor").out
    provider.set_key("sk-team")
    assert "There is no key for Team" not in Ran("doctor").out


def test_a_model_that_its_provider_is_about_to_end_is_found(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key that is never tried")
    settings.DEFAULT_MODEL = "openai:gpt-5"
    assert "ends openai:gpt-5 on 2026-12-11" in Ran("doctor").out


# --- database ----------------------------------------------------------------------------------
def test_a_database_that_takes_no_writes_is_found() -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
    try:
        (found,) = faults(database.check_database())
    finally:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA query_only = OFF")
    assert found.startswith("It refuses writes: ")


def test_looking_writes_nothing() -> None:
    before = Session.objects.count()
    assert faults(database.check_database()) == []
    assert Session.objects.count() == before


@pytest.mark.parametrize(
    ("pragma", "fault"),
    [
        ("journal_mode = DELETE", "journal_mode is delete, not wal."),
        ("synchronous = OFF", "synchronous is 0, not 2."),
    ],
)
def test_a_database_that_would_forget_is_found(pragma: str, fault: str, tmp_path: Path) -> None:
    """In a file of its own: SQLite changes the mode of a journal for its only connection alone."""
    with database_at(tmp_path / "forgetful.sqlite3"):
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.execute(f"PRAGMA {pragma}")
        assert faults(database.check_durability()) == [fault]


def test_without_a_database_the_rest_is_looked_at(tmp_path: Path) -> None:
    with database_at(tmp_path / "no folder" / "x.sqlite3"):
        ran = Ran("doctor")
    assert "wrong     database: The database does not answer" in ran.out
    assert "channel layer" in ran.out
    assert "clock" not in ran.out


@pytest.mark.parametrize(
    ("apart", "state"),
    [(0, "good"), (-1.5, "good"), (20, "doubtful"), (-20, "doubtful"), (90, "wrong")],
)
def test_clocks_that_disagree_are_found(apart: float, state: str) -> None:
    (found,) = database.check_clock(timezone.now() + timedelta(seconds=apart))
    assert found.state == state


# --- what is reached ---------------------------------------------------------------------------
def test_one_process_alone_is_told_that_it_needs_no_layer(settings: Any) -> None:
    settings.CHANNEL_LAYERS = {}
    (found,) = connections.check_channel_layer()
    assert (found.state, found.message) == ("good", "Not needed: there is one server process.")


def test_a_silent_layer_is_found(settings: Any) -> None:
    layer = {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": ["redis://127.0.0.1:9"]},
    }
    settings.CHANNEL_LAYERS = {"default": layer}
    (found,) = connections.check_channel_layer()
    assert found.state == "wrong"
    assert "REDIS_URL" in found.hint


@pytest.mark.long
def test_redis_is_heard(settings: Any) -> None:
    layer = {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": ["redis://127.0.0.1:6379/9"]},
    }
    settings.CHANNEL_LAYERS = {"default": layer}
    settings.REDIS_URL = "redis://127.0.0.1:6379/9"
    assert [found.message for found in connections.check_channel_layer()] == [
        "Redis delivers messages."
    ]


@pytest.mark.long
def test_postgresql_is_heard(settings: Any) -> None:
    backend = "chatapp.server.postgresql.channel_layer.NotifyChannelLayer"
    url = make_postgresql()
    config = {"database": environ.Env.db_url_config(url)}
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend, "CONFIG": config}}
    settings.REDIS_URL = ""
    (heard,) = connections.check_channel_layer()
    assert heard.message == "PostgreSQL delivers messages."
    drop_postgresql(url)
    (silent,) = connections.check_channel_layer()
    assert silent.state == "wrong"
    assert "session mode" in silent.hint


def test_tasks_that_nobody_runs_and_tasks_that_failed_are_found() -> None:
    assert [each.state for each in tasks.check_tasks()] == ["good"]
    jobs.prune_events.enqueue()
    assert [each.state for each in tasks.check_tasks()] == ["good"]
    DBTaskResult.objects.update(enqueued_at=timezone.now() - timedelta(minutes=11))
    (late,) = tasks.check_tasks()
    assert (late.state, "run_tasks" in late.hint) == ("wrong", True)
    DBTaskResult.objects.update(status="FAILED", finished_at=timezone.now())
    (failed,) = tasks.check_tasks()
    assert (failed.state, "prune_events" in failed.message) == ("doubtful", True)
    DBTaskResult.objects.update(finished_at=timezone.now() - timedelta(days=2))
    assert [each.state for each in tasks.check_tasks()] == ["good"]


def test_secrets_that_no_key_opens_are_found(settings: Any) -> None:
    credentials.set_bearer(service(authentication="bearer"), "a-token-of-the-wiki")
    assert faults(connections.check_secrets()) == []
    new, old = Fernet.generate_key().decode(), settings.ENCRYPTION_KEYS[0]
    settings.ENCRYPTION_KEYS = [new, old]
    (found,) = connections.check_secrets()
    assert (found.state, found.hint) == ("doubtful", "Run: manage.py rotate_keys")
    settings.ENCRYPTION_KEYS = [new]
    (found,) = connections.check_secrets()
    assert found.state == "wrong"
    assert "credential" in found.message


def test_services_are_told_by_how_they_did_last() -> None:
    service("new")
    service("works", last_success_at=timezone.now())
    service("fails", last_error={"kind": "tls", "message": "No certificate."})
    service("own", "builtin:notebook")
    service("off", is_enabled=False, last_error={"kind": "tls", "message": "No certificate."})
    found = {each.subject: each.state for each in connections.check_services(connects=False)}
    assert found == {
        "service fails": "wrong",
        "service new": "doubtful",
        "service own": "good",
        "service works": "good",
    }


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(application(toolbox(Watch()))) as made:
        yield made


def test_nothing_is_connected_to_unless_asked(served: Served) -> None:
    service("box", served.url, allows_private_addresses=True)
    Ran("doctor")
    assert served.arrivals.seen == []
    ran = Ran("doctor", "--connect")
    assert "tools/list" in served.arrivals.methods
    assert "good      service box: It works: 7 tools" in ran.out


def test_a_service_that_does_not_answer_now_is_found() -> None:
    service("gone", "http://127.0.0.1:9/mcp", allows_private_addresses=True)
    ran = Ran("doctor", "--connect")
    assert ran.code == 1
    assert "wrong     service gone: Nothing answers at the service’s address." in ran.out


# --- PostgreSQL --------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("", ""),
        ("synchronous_commit = off", "synchronous_commit is off"),
        ("default_transaction_isolation = serializable", "transaction_isolation is serializable"),
        ("default_transaction_read_only = on", "It refuses writes"),
    ],
)
def test_postgresql_is_looked_at_too(tmp_path: Path, setting: str, fault: str) -> None:
    with database_of("postgresql", tmp_path) as url:
        if setting:
            with psycopg.connect(url, autocommit=True) as planting:
                name = planting.info.dbname
                planting.execute(f"ALTER DATABASE {name} SET {setting}".encode())
        ran = manage(tmp_path, "doctor", DATABASE_URL=url)
    told = [line for line in ran.stdout.splitlines() if "database" in line]
    assert told[0] == "good      database: PostgreSQL answers."
    assert fault in ran.stdout
    assert ran.returncode == (1 if fault else 0), ran.stdout + ran.stderr


# --- mail --------------------------------------------------------------------------------------
def test_without_a_mail_server_nothing_is_amiss(settings: Any) -> None:
    settings.SENDS_MAIL = False
    assert faults([*mail.check_server(), *mail.check_addresses()]) == []


def test_a_mail_server_that_takes_us_in_is_sent_nothing(settings: Any) -> None:
    with post_office(settings) as office:
        (found,) = mail.check_server()
    assert (found.state, office.asked) == ("good", 0)


@pytest.mark.parametrize("fault", ["nobody", "no TLS", "no sign-in"])
def test_a_mail_server_that_cannot_be_used_is_found(settings: Any, fault: str) -> None:
    with post_office(settings):
        match fault:
            case "nobody":
                settings.EMAIL_PORT = free_port()
            case "no TLS":
                settings.EMAIL_USE_TLS = True
            case _:
                settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "ada", "wrong"
        (found,) = mail.check_server()
    assert (found.state, "EMAIL_URL" in found.hint) == ("wrong", True)
    assert "wrong" not in found.message


def test_addresses_that_were_given_up_are_named(settings: Any, owner: Member) -> None:
    settings.SENDS_MAIL = True
    MailPreference.objects.create(person=owner, is_on=False, refusals=MAX_REFUSALS)
    (found,) = mail.check_addresses()
    assert (found.state, found.message) == (
        "doubtful",
        "The server refuses the addresses of: owner.",
    )
