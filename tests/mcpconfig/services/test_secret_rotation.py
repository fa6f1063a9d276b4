"""Keys are rotated for every stored secret, as often as needed, and nothing is lost by it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.conf import LazySettings
from django.db import models

from mcpconfig import credentials, vault
from mcpconfig.models import Credential, Service
from tests.commands import Ran

ROOT = Path(__file__).resolve().parents[2]
CANARY = "canary-secret-0123456789"


def key() -> str:
    return Fernet.generate_key().decode()


@pytest.fixture
def old(settings: LazySettings) -> str:
    """The only key, under which everything is stored that a test begins with."""
    made = key()
    settings.ENCRYPTION_KEYS = [made]
    return made


def stored(count: int = 3) -> list[Service]:
    made = [
        Service.objects.create(
            name=f"one-{number}", url="https://one.example/mcp", authentication="bearer"
        )
        for number in range(count)
    ]
    for service in made:
        credentials.set_bearer(service, CANARY)
    return made


def opened(service: Service) -> dict[str, str]:
    return credentials.request_headers(service, Credential.objects.get(service=service))


def test_every_secret_comes_under_the_first_key(old: str, settings: LazySettings) -> None:
    services, new = stored(), key()
    credentials.set_headers(services[0], {"X-Key": CANARY})
    settings.ENCRYPTION_KEYS = [new, old]

    ran = Ran("rotate_keys", "--json")

    expected = {"rotated": 4, "were_current": 0, "missed": 0, "unreadable": []}
    assert (ran.code, ran.json) == (0, expected)
    settings.ENCRYPTION_KEYS = [new]
    assert all(opened(service) == {"authorization": f"Bearer {CANARY}"} for service in services)
    assert credentials.header_names(services[0]) == ["X-Key"]


def test_a_second_rotation_has_nothing_to_do(old: str, settings: LazySettings) -> None:
    stored()
    settings.ENCRYPTION_KEYS = [key(), old]
    assert "3 put under the newest key, 0 were already." in Ran("rotate_keys").out
    before = list(Credential.objects.values_list("bearer", flat=True))

    ran = Ran("rotate_keys")

    assert "0 put under the newest key, 3 were already." in ran.out
    assert "older keys can be removed" in ran.out
    assert list(Credential.objects.values_list("bearer", flat=True)) == before


def test_a_rotation_that_was_cut_off_goes_on(old: str, settings: LazySettings) -> None:
    stored()
    settings.ENCRYPTION_KEYS = [key(), old]
    first = next(vault.stored_secrets())
    assert first.rotate()

    assert vault.rotate_all() == vault.Rotation(rotated=2, were_current=1, missed=0, unreadable=[])


def test_without_an_old_key_everything_is_as_it_was(old: str) -> None:
    stored()
    assert vault.rotate_all().were_current == 3


def test_what_no_key_opens_is_named_and_the_rest_is_done(old: str, settings: LazySettings) -> None:
    services, lost = stored(), key()
    settings.ENCRYPTION_KEYS = [lost]
    credentials.set_bearer(services[1], CANARY)
    settings.ENCRYPTION_KEYS = [key(), old]

    ran = Ran("rotate_keys", "--json")

    place = f"credential {Credential.objects.get(service=services[1]).pk}, bearer"
    assert ran.code == 1
    assert ran.json["unreadable"] == [place]
    assert ran.json["rotated"] == 2
    assert ran.json["error"]["kind"] == "configuration"
    assert place in ran.err
    assert CANARY not in ran.err + ran.out


def test_a_secret_that_was_changed_meanwhile_is_not_put_back(
    old: str, settings: LazySettings
) -> None:
    (service,) = stored(1)
    settings.ENCRYPTION_KEYS = [key(), old]
    read = next(vault.stored_secrets())
    credentials.set_bearer(service, "a-newer-token")

    assert read.rotate() is False
    assert opened(service) == {"authorization": "Bearer a-newer-token"}


def test_every_binary_field_is_taken_for_a_secret() -> None:
    """Whoever stores other bytes than secrets must tell the vault apart what is which."""
    found = {f"{model.__name__}.{field}" for model, field in vault.secret_fields()}
    assert {"Credential.bearer", "Credential.headers", "Question.sealed_state"} <= found
    stored = {
        f"{model.__name__}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, models.BinaryField)
    }
    assert found == stored


@pytest.mark.slow
def test_a_rotation_that_is_killed_anywhere_loses_nothing(
    tmp_path: Path, old: str, settings: LazySettings
) -> None:
    """The process is killed after some of the rows; a second run does the others."""
    new = key()
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "chatapp.settings",
        "VAR_DIR": str(tmp_path),
        "LOG_LEVEL": "ERROR",
    }

    def python(script: str, keys: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", f"import django; django.setup()\n{script}"],
            cwd=ROOT,
            env={**environment, "ENCRYPTION_KEYS": keys},
            capture_output=True,
            text=True,
            timeout=50,
        )

    assert python(STORE, old).returncode == 0
    assert python(KILLED, f"{new},{old}").returncode == -9
    finished = python(FINISH, f"{new},{old}")
    assert finished.stdout.split() == ["18", "2"], finished.stderr
    assert python(COUNT, new).stdout.split() == ["20"]


STORE = """
from django.core.management import call_command
from mcpconfig import credentials
from mcpconfig.models import Service
call_command("migrate", verbosity=0)
for number in range(20):
    service = Service.objects.create(name=f"s{number}", url="https://one.example/mcp")
    credentials.set_bearer(service, "secret")
"""
KILLED = """
import os, signal
from mcpconfig import vault
for number, secret in enumerate(vault.stored_secrets()):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    secret.rotate()
"""
FINISH = """
from mcpconfig.vault import rotate_all
done = rotate_all()
print(done.rotated, done.were_current)
"""
COUNT = """
from mcpconfig.vault import stored_secrets
print(sum(secret.is_readable for secret in stored_secrets()))
"""
