"""No provider's SDK is loaded before somebody asks one of its models, and then not on the event
loop: each takes up to a second."""

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from tests.chatapp.providers.accounts import BASE_URLS, KEYS
from tests.migrated import make_sqlite
from tests.wire.server import WireServer

from .model_server import answering
from .person import Person, find_conversation_id, is_over
from .server import ROOT, Installation, eventually

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
SDKS = {
    "openai": "openai",
    "openai-chat": "openai",
    "anthropic": "anthropic",
    "google": "google.genai",
    "bedrock": "botocore",
}
# What passkeys and sign-in providers need, and a sign-in by password does not.
SIGN_IN_LIBRARIES = {"cryptography", "fido2", "jwt", "requests"}
# The first call of a process, which notes in which threads the SDK is loaded.
FIRST_CALLS = """
import asyncio, sys, threading
import chatapp.asgi
from tests.chatapp.providers.stories import said_by, text_of

form, sdk = sys.argv[1:]
on_the_loop = set()

class Watch:
    def find_spec(self, name, path, target=None):
        if name == sdk or name.startswith(f"{sdk}."):
            on_the_loop.add(threading.current_thread() is threading.main_thread())

async def main():
    assert sdk not in sys.modules
    sys.meta_path.insert(0, Watch())
    assert "no more answers" in text_of(await said_by(form))
    assert sdk in sys.modules

asyncio.run(main())
print(sorted(on_the_loop))
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with an account of every provider; it notes each module that it loads."""
    folder = tmp_path_factory.mktemp("first_use")
    with answering(WireServer()) as model:
        accounts = {name: model.base_url(form) for form, name in BASE_URLS.items()}
        for keys in KEYS.values():
            accounts |= keys
        made = Installation(
            folder,
            DJANGO_SETTINGS_MODULE="chatapp.settings",
            DATABASE_URL=make_sqlite(folder / "first_use.sqlite3"),
            **accounts,
        )
        try:
            yield made
        finally:
            made.close()


def loaded_sdks(notes: str) -> set[str]:
    """The SDKs among the modules that Python noted as it loaded them."""
    return loaded_modules(notes) & set(SDKS.values())


def loaded_modules(notes: str) -> set[str]:
    modules = set(re.findall(r"^import time:.*\| +([\w.]+)$", notes, re.MULTILINE))
    assert "django" in modules, "Nothing was noted."
    return modules


def test_the_check_loads_no_sdk(installation: Installation) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "manage.py", "check"],
        cwd=ROOT,
        env=installation.environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    assert loaded_sdks(done.stderr) == set()


@pytest.mark.long
def test_a_server_loads_an_sdk_with_the_first_question_to_it(installation: Installation) -> None:
    installation.manage("member", "add", "owner", "--password-env", "PASSWORD")
    server = installation.server("noting", PYTHONPROFILEIMPORTTIME="1")
    server.start()
    person = Person(installation, "anthropic:claude-sonnet-5-5")
    person.sign_in(server)
    assert "Claude Sonnet 5.5" in person.html(server, "/")
    assert loaded_sdks(server.log) == set()
    assert loaded_modules(server.log) & SIGN_IN_LIBRARIES == set()
    conversation = find_conversation_id(person.send(server, "Hello", uuid.uuid4()))
    eventually(lambda: is_over(person.page(server, conversation)), "the answer ends")
    assert "The script has no more answers." in person.html(server, f"/c/{conversation}/")
    assert loaded_sdks(server.log) == {"anthropic"}


@pytest.mark.long
@pytest.mark.parametrize("form", SDKS)
def test_the_first_call_loads_the_sdk_beside_the_event_loop(
    installation: Installation, form: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALLS, form, SDKS[form]],
        cwd=ROOT,
        env={**installation.environment, "PYTHONPATH": os.curdir},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert done.stdout.strip() == "[False]", "It was loaded on the event loop, and all waited."
