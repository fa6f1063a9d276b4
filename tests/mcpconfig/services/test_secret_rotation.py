"""Keys are rotated for every stored secret, as often as needed, and nothing is lost by it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.conf import LazySettings
from django.db import connection, models
from django.test.utils import CaptureQueriesContext

from chatapp.management.diagnostics.connections import check_secrets
from chatapp.models import Attachment, File, Member
from mcpconfig.models import Credential, Service
from mcpconfig.secrets import credentials
from mcpconfig.services import secret_rotation
from tests.commands import Ran
from tests.migrated import make_sqlite

ROOT = Path(__file__).resolve().parents[3]
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
    return credentials.load_request_headers(service, Credential.objects.get(service=service))


def test_every_secret_comes_under_the_first_key(old: str, settings: LazySettings) -> None:
    services, new = stored(), key()
    credentials.set_headers(services[0], {"X-Key": CANARY})
    settings.ENCRYPTION_KEYS = [new, old]

    ran = Ran("rotate_keys", "--json")

    expected = {"rotated": 4, "were_current": 0, "missed": 0, "unreadable": []}
    assert (ran.code, ran.json) == (0, expected)
    settings.ENCRYPTION_KEYS = [new]
    assert all(opened(service) == {"authorization": f"Bearer {CANARY}"} for service in services)
    assert credentials.list_header_names(services[0]) == ["X-Key"]


def test_a_second_rotation_has_nothing_to_do(old: str, settings: LazySettings) -> None:
    stored()
    settings.ENCRYPTION_KEYS = [key(), old]
    assert "Encrypted with the newest key: 3. Already current: 0." in Ran("rotate_keys").out
    before = list(Credential.objects.values_list("bearer", flat=True))

    ran = Ran("rotate_keys")

    assert "Encrypted with the newest key: 0. Already current: 3." in ran.out
    assert "You can remove the older keys" in ran.out
    assert list(Credential.objects.values_list("bearer", flat=True)) == before


def test_a_rotation_that_was_cut_off_goes_on(old: str, settings: LazySettings) -> None:
    stored()
    settings.ENCRYPTION_KEYS = [key(), old]
    first = next(secret_rotation.iterate_stored_secrets())
    assert first.rotate()

    assert secret_rotation.rotate_secrets() == secret_rotation.Rotation(
        rotated=2, were_current=1, missed=0, unreadable=[]
    )


def test_without_an_old_key_everything_is_as_it_was(old: str) -> None:
    stored()
    assert secret_rotation.rotate_secrets().were_current == 3


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
    read = next(secret_rotation.iterate_stored_secrets())
    credentials.set_bearer(service, "a-newer-token")

    assert read.rotate() is False
    assert opened(service) == {"authorization": "Bearer a-newer-token"}


# Binary fields that hold no secret. Anything else is a `SealedField`, or the next rotation of keys
# loses it.
UNSEALED = {"AssistantPicture.data", "File.data", "ImportPiece.data", "ProjectFileData.data"} | {
    "PassageVector.numbers",
    "PassageVector.signs",
}


def test_every_binary_field_is_marked_as_secret_or_listed_as_none() -> None:
    found = {f"{model.__name__}.{field}" for model, field in secret_rotation.list_secret_fields()}
    assert {"Credential.bearer", "Credential.headers", "Question.sealed_state"} <= found
    binary = {
        f"{model.__name__}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, models.BinaryField)
    }
    assert binary - found == UNSEALED


def test_an_uploaded_file_is_neither_a_secret_nor_read(
    old: str, settings: LazySettings, owner: Member
) -> None:
    stored()
    attachment = Attachment.objects.create(
        owner=owner, name="a.txt", mime_type="text/plain", size=10, contents=[]
    )
    File.objects.create(attachment=attachment, data=b"not sealed")
    settings.ENCRYPTION_KEYS = [key(), old]

    with CaptureQueriesContext(connection) as queries:
        doubtful = check_secrets()
        ran = Ran("rotate_keys", "--json")

    assert (ran.code, ran.json["rotated"], ran.json["unreadable"]) == (0, 3, [])
    assert [finding.message for finding in doubtful] == ["3 of 3 use an older key."]
    assert [each["sql"] for each in queries if File._meta.db_table in each["sql"]] == []
    assert bytes(File.objects.get().data) == b"not sealed"


def test_more_secrets_than_are_read_at_once_are_all_rotated(
    old: str, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_rotation, "BATCH_SIZE", 2)
    stored(5)
    settings.ENCRYPTION_KEYS = [key(), old]

    assert secret_rotation.rotate_secrets().rotated == 5
    assert secret_rotation.rotate_secrets().were_current == 5


@pytest.mark.long
def test_a_rotation_that_is_killed_anywhere_loses_nothing(
    tmp_path: Path, old: str, settings: LazySettings
) -> None:
    """The process is killed after some of the rows; a second run does the others."""
    new = key()
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "chatapp.settings",
        "VAR_DIR": str(tmp_path),
        "DATABASE_URL": make_sqlite(tmp_path / "secrets.sqlite3"),
        "LOG_LEVEL": "ERROR",
    }

    def python(script: str, keys: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", f"import django; django.setup()\n{script}"],
            cwd=ROOT,
            env={**environment, "ENCRYPTION_KEYS": keys},
            capture_output=True,
            text=True,
            timeout=150,
        )

    assert python(STORE, old).returncode == 0
    assert python(KILLED, f"{new},{old}").returncode == -9
    finished = python(FINISH, f"{new},{old}")
    assert finished.stdout.split() == ["18", "2"], finished.stderr
    assert python(COUNT, new).stdout.split() == ["20"]


STORE = """
from django.core.management import call_command
from mcpconfig.secrets import credentials
from mcpconfig.models import Service
for number in range(20):
    service = Service.objects.create(name=f"s{number}", url="https://one.example/mcp")
    credentials.set_bearer(service, "secret")
"""
KILLED = """
import os, signal
from mcpconfig.services import secret_rotation
for number, secret in enumerate(secret_rotation.iterate_stored_secrets()):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    secret.rotate()
"""
FINISH = """
from mcpconfig.services.secret_rotation import rotate_secrets
done = rotate_secrets()
print(done.rotated, done.were_current)
"""
COUNT = """
from mcpconfig.services.secret_rotation import iterate_stored_secrets
print(sum(secret.is_readable for secret in iterate_stored_secrets()))
"""
