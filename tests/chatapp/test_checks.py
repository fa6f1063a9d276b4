"""Settings that would make an installation unsafe are refused; safe ones pass."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.checks import run_checks

from chatapp import checks
from chatapp.server import serving

SAFE_KEY = "k3y-that-was-made-at-random-0123456789-abcdefghij-XYZ"


def found() -> set[str | None]:
    return {message.id for message in run_checks() if (message.id or "").startswith("countersign")}


@pytest.fixture(autouse=True)
def safe(settings: Any) -> None:
    settings.DEBUG = False
    settings.SECRET_KEY = SAFE_KEY
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]


def test_safe_settings_pass(settings: Any) -> None:
    settings.PUBLIC_URL = "https://chat.example:8443"
    settings.ALLOWED_ORIGINS = [settings.PUBLIC_URL, "http://127.0.0.1:6740"]
    assert found() == set()


def test_any_host_is_refused_unless_debugging(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["chat.example", "*"]
    assert found() == {"countersign.E001"}
    settings.DEBUG = True
    assert found() == set()


@pytest.mark.parametrize(
    "key", ["short", "django-insecure-" + SAFE_KEY, "changeme-" + SAFE_KEY, "ab" * 40]
)
def test_a_guessable_secret_key_is_refused(settings: Any, key: str) -> None:
    settings.SECRET_KEY = key
    assert found() == {"countersign.E002"}


@pytest.mark.parametrize("keys", [[], ["not a key"], [Fernet.generate_key().decode(), ""]])
def test_unusable_encryption_keys_are_refused(settings: Any, keys: list[str]) -> None:
    settings.ENCRYPTION_KEYS = keys
    assert found() == {"countersign.E003"}


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "chat.example",
        "https://*.chat.example",
        "https://chat.example/path",
        "https://user@chat.example",
        "ftp://chat.example",
        "https://",
        "null",
    ],
)
def test_an_inexact_origin_is_refused(settings: Any, origin: str) -> None:
    settings.ALLOWED_ORIGINS = [origin]
    assert found() == {"countersign.E004"}


def test_other_databases_are_refused(settings: Any) -> None:
    engine = {"ENGINE": "django.db.backends.mysql", "NAME": "chat"}
    settings.DATABASES = {"default": engine}
    assert [message.id for message in checks.check_database(None)] == ["countersign.E005"]


def test_sqlite_on_a_network_file_system_is_found(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\nserver:/x /srv/share nfs4 rw 0 0\n")
    assert checks.is_on_network(Path("/srv/share/data/chat.sqlite3"), mounts)
    assert not checks.is_on_network(Path("/srv/shared/chat.sqlite3"), mounts)
    assert not checks.is_on_network(Path("/srv/share/chat.sqlite3"), tmp_path / "no such file")


def test_debugging_stays_on_this_machine(settings: Any) -> None:
    settings.DEBUG = True
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        serving.check_can_serve(host, 1)
    for host in ("192.0.2.7", "chat.example", "::"):
        with pytest.raises(serving.CannotServe, match="DEBUG is on"):
            serving.check_can_serve(host, 1)
    settings.DEBUG = False
    serving.check_can_serve("192.0.2.7", 1)


def test_several_workers_need_a_channel_layer(settings: Any) -> None:
    settings.CHANNEL_LAYERS = {}
    with pytest.raises(serving.CannotServe, match="PostgreSQL or Redis"):
        serving.check_can_serve("127.0.0.1", 2)
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    serving.check_can_serve("127.0.0.1", 2)
