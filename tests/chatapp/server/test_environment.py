"""Settings that cannot be used are named before anything else happens, and never repeated."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from chatapp.server.environment import Environment

from .test_serve import manage

pytestmark = pytest.mark.gate

env = Environment()
SECRET = "hunter2-in-the-clear"
Read = Callable[[], Any]
READS: dict[str, Read] = {
    "int": lambda: env.int("SETTING", default=5),
    "float": lambda: env.float("SETTING", default=5),
    "bool": lambda: env.bool("SETTING", default=True),
    "db": lambda: env.db("SETTING", default="sqlite:////tmp/x"),
    "mail_server": lambda: env.mail_server("SETTING"),
    "networks": lambda: env.networks("SETTING", default=["127.0.0.1"]),
    "log_level": lambda: env.log_level("SETTING", default="INFO"),
    "time_zone": lambda: env.time_zone("SETTING", default="UTC"),
    "choice": lambda: env.choice("SETTING", "text", "json"),
}


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("int", "7", 7),
        ("float", "0.5", 0.5),
        ("float", "2", 2.0),
        ("bool", "1", True),
        ("bool", "No", False),
        ("bool", "off", False),
        ("bool", "", False),
        ("networks", "10.0.0.5, 10.1.0.0/16,fd00::/8", ["10.0.0.5", "10.1.0.0/16", "fd00::/8"]),
        ("log_level", "debug", "DEBUG"),
        ("time_zone", "Europe/Berlin", "Europe/Berlin"),
        ("choice", "JSON", "json"),
    ],
)
def test_what_can_be_used_is_read(
    monkeypatch: pytest.MonkeyPatch, kind: str, value: str, read: object
) -> None:
    monkeypatch.setenv("SETTING", value)
    assert READS[kind]() == read


def test_what_is_not_set_is_its_default() -> None:
    found = {kind: read() for kind, read in READS.items()}
    assert (found["int"], found["float"], found["bool"]) == (5, 5.0, True)
    assert (found["log_level"], found["time_zone"]) == ("INFO", "UTC")
    assert found["choice"] == "text"
    assert found["db"]["NAME"] == "/tmp/x"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", SECRET),
        ("int", "1.5"),
        ("int", ""),
        ("float", SECRET),
        ("bool", "perhaps"),
        ("db", SECRET),
        ("db", f"postgres://user:{SECRET}@host:port/name"),
        ("db", f"mysql://user:{SECRET}@host/name"),
        ("db", f"://user:{SECRET}@host/name"),
        ("mail_server", SECRET),
        ("mail_server", f"http://user:{SECRET}@host"),
        ("mail_server", f"smtp://user:{SECRET}@host:port"),
        ("mail_server", f"smtp+tls://user:{SECRET}@"),
        ("networks", SECRET),
        ("networks", "*"),
        ("networks", "0.0.0.0/0"),
        ("networks", "10.0.0.5/16"),
        ("networks", "::/0"),
        ("log_level", "loud"),
        ("time_zone", "Mars/Olympus"),
        ("time_zone", "../../etc/passwd"),
        ("choice", SECRET),
    ],
)
def test_what_cannot_be_used_is_named_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, kind: str, value: str
) -> None:
    monkeypatch.setenv("SETTING", value)
    with warnings.catch_warnings(), pytest.raises(ImproperlyConfigured) as raised:
        warnings.simplefilter("error")
        READS[kind]()
    assert str(raised.value).startswith("SETTING cannot be used: it must be ")
    assert SECRET not in str(raised.value)


def test_a_mail_server_is_read_with_its_kind_of_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert env.mail_server("SETTING") == {}
    monkeypatch.setenv("SETTING", "smtp+tls://ada:a%20word@mail.example:587")
    read = env.mail_server("SETTING")
    assert (read["EMAIL_HOST"], read["EMAIL_PORT"]) == ("mail.example", 587)
    assert (read["EMAIL_HOST_USER"], read["EMAIL_HOST_PASSWORD"]) == ("ada", "a word")
    assert read["EMAIL_USE_TLS"] is True
    monkeypatch.setenv("SETTING", "smtp+ssl://mail.example:465")
    assert env.mail_server("SETTING")["EMAIL_USE_SSL"] is True


def test_an_empty_database_address_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SETTING", "")
    assert READS["db"]()["NAME"] == "/tmp/x"


@pytest.mark.parametrize(
    ("command", "settings", "kind", "says"),
    [
        ("approvals", {"DATABASE_URL": "nonsense"}, "configuration", "DATABASE_URL cannot be used"),
        ("check", {"TURN_MAX_STEPS": "many"}, "configuration", "TURN_MAX_STEPS cannot be used"),
        ("migrate", {"VAR_DIR": "/proc/nowhere"}, "files", "/proc/nowhere"),
    ],
)
def test_a_command_ends_in_words_when_the_settings_are_wrong(
    tmp_path: Path, command: str, settings: dict[str, str], kind: str, says: str
) -> None:
    ran = manage(tmp_path, command, **{"DJANGO_SETTINGS_MODULE": "chatapp.settings", **settings})
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"{kind}: ")
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ENCRYPTION_KEYS": "bad"}, "configuration: ENCRYPTION_KEYS has a key"),
        ({"METRICS_TOKEN": "short"}, "configuration: METRICS_TOKEN cannot be used"),
        ({"SECRET_KEY": "short"}, "configuration: SECRET_KEY is short"),
        ({"EMAIL_URL": "smtp://host:25"}, "configuration: EMAIL_FROM cannot be used: it must be"),
        ({"PUBLIC_URL": "chat.example"}, "configuration: chat.example is not an exact origin."),
        ({"DATABASE_URL": "postgres://nobody@127.0.0.1:9/x"}, "database: The database does not"),
    ],
)
def test_what_the_settings_lead_to_is_told_in_words(
    tmp_path: Path, settings: dict[str, str], says: str
) -> None:
    ran = manage(tmp_path, "approvals", **settings)
    assert ran.returncode == 1
    assert ran.stderr.startswith(says)
    assert "Traceback" not in ran.stderr


def test_a_trace_is_shown_to_whoever_asks_for_it(tmp_path: Path) -> None:
    ran = manage(tmp_path, "check", "--traceback", DATABASE_URL="nonsense")
    assert "Traceback" in ran.stderr


def test_options_of_the_database_address_are_kept(tmp_path: Path) -> None:
    """A server that must be reached by TLS and cannot be is not reached at all."""
    address = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=require"
    ran = manage(tmp_path, "shell", "-v", "0", "-c", OPTIONS, DATABASE_URL=address)
    assert ran.stdout.split() == ["require", "True"], ran.stderr


OPTIONS = """
from django.conf import settings
options = settings.DATABASES["default"]["OPTIONS"]
print(options["sslmode"], "lock_timeout" in options["options"])
"""
