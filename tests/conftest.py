"""Three fixed people for every test, and the rule that CI skips nothing."""

import gc
import json
import logging
import os
import re
import signal
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import limits.storage.memory
import pytest
from django.contrib.contenttypes.management import create_contenttypes
from django.db import connection
from django.db.backends.base.introspection import BaseDatabaseIntrospection
from django.db.models.signals import post_migrate
from django.test import Client
from pytest_django import DjangoDbBlocker

from chatapp.models import Member
from chatapp.models.conversations import search_index
from chatapp.models.policy import audit_log_guards
from chatapp.models.projects import passage_index
from chatapp.server.runtime import Runtime, current_runtime, using_runtime
from tests import assertion_cache, migrated
from tests.pseudo_locales import pseudo_locales, pseudo_locales_folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test is a failed one where `CI` is set: nothing may quietly stop being checked."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and CI skips nothing: {report.longrepr}"
    return report


# Examples of each property: few and the same ones where a failure would stop somebody else's work,
# many and new ones where a failure is what the run is for.
hypothesis.settings.register_profile("fast", max_examples=40, deadline=None, derandomize=True)
hypothesis.settings.register_profile("gate", max_examples=40, deadline=None, derandomize=True)
hypothesis.settings.register_profile("long", max_examples=600, deadline=None, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        migrated.open_templates()
        if config.getoption("numprocesses", None):
            assertion_cache.fill_cache(config, find_files(config))
        # Made before the processes start, so that no test waits for it within its own time.
        if _runs_migrations(config) and config.getoption("numprocesses", None):
            migrated.find_sqlite_template()
    # What a shell starts in the background ignores Ctrl+C, and so would every server of the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        migrated.drop_templates()


def _runs_migrations(config: pytest.Config) -> bool:
    return connection.vendor == "sqlite" and not config.getoption("nomigrations")


@pytest.fixture
def no_logging() -> Iterator[None]:
    """A line, often with a traceback, for each of a thousand refusals takes a third of the time of
    a sweep."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings: None, pytestconfig: pytest.Config
) -> None:
    """With migrations, the database of the tests is a copy of the template."""
    if _runs_migrations(pytestconfig):
        migrated.make_sqlite(Path(connection.settings_dict["TEST"]["NAME"]))


@pytest.fixture(scope="session")
def django_db_keepdb(pytestconfig: pytest.Config) -> bool:
    return _runs_migrations(pytestconfig)


# Their rows follow from the models. Made anew after each flush they were a tenth of all the time.
KEPT_TABLES = {"auth_permission", "django_content_type"}


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Tests empty all tables but two, which the log's guards refuse; the tests about the guards put
    them back."""
    with django_db_blocker.unblock():
        audit_log_guards.remove(connection)
        search_index.install(connection)  # the fast tests run no migrations
        passage_index.install(connection)
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.disconnect(create_contenttypes)
    # In the class: while a browser's event loop runs, a thread has another connection.
    introspection: Any = BaseDatabaseIntrospection
    all_names = introspection.django_table_names
    introspection.django_table_names = lambda self, **how: [
        name for name in all_names(self, **how) if name not in KEPT_TABLES
    ]


# What `make test-gate`, `make test-long` and `make test` ask for. A file is searched for its marks
# before it is imported: importing all files takes half a minute in each process.
ALL_SLOW = re.compile(r"^pytestmark = (?:\[[^\]]*)?pytest\.mark\.(?:gate|long)\b", re.MULTILINE)
LANES: dict[str, Callable[[str], bool]] = {
    "gate and not long": lambda text: "mark.gate" in text,
    "long": lambda text: names_lane(text, "long"),
    "not gate and not long": lambda text: not ALL_SLOW.search(text),
}


def names_lane(text: str, lane: str) -> bool:
    """Whether a file names the mark of a lane. `both_looks` has the one of the long lane."""
    return f"mark.{lane}" in text or (lane == "long" and "@both_looks" in text)


def find_files(config: pytest.Config) -> list[Path]:
    """Return the files with tests of the lane that is run."""
    holds_tests = LANES.get(config.option.markexpr)
    # The peers are programs of others, with tests of their own.
    folders = [folder for folder in ROOT.iterdir() if folder.name != "peers" and folder.is_dir()]
    files = [*ROOT.glob("test_*.py"), *(p for each in folders for p in each.rglob("test_*.py"))]
    return [file for file in files if not holds_tests or holds_tests(file.read_text())]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a test of the lane that is run."""
    holds_tests = LANES.get(config.option.markexpr)
    if not holds_tests or not collection_path.match("test_*.py"):
        return None
    return not holds_tests(collection_path.read_text()) or None


def refuse_unnamed_lanes(items: list[pytest.Item]) -> None:
    """Raise UsageError for a test whose file does not name its mark, and so would be left out."""
    texts = {path: path.read_text() for path in {item.path for item in items}}
    for item in items:
        for lane in ("gate", "long"):
            if item.get_closest_marker(lane) and not names_lane(texts[item.path], lane):
                raise pytest.UsageError(f"{item.path} must name pytest.mark.{lane} itself.")


ROOT = Path(__file__).parent
DURATIONS = ROOT / "durations.json"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no process is left with one at the end.

    `tests/durations.json` has the seconds of each file; a file that is not in it takes a second.
    """
    refuse_unnamed_lanes(items)
    seconds: dict[str, float] = json.loads(DURATIONS.read_text())
    root = config.rootpath
    items.sort(key=lambda item: -seconds.get(item.path.relative_to(root).as_posix(), 1.0))


def pytest_collection_finish() -> None:
    """What is loaded by now stays, so the garbage collector need not search it after each test. It
    runs as rarely as in a server."""
    gc.collect()
    gc.set_threshold(50_000)
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_runtime() -> Iterator[None]:
    """A runtime for each test. The listener of the demo service is a thread that tests share."""
    shared = current_runtime()
    with using_runtime(Runtime(demo_listener=shared.demo_listener)) as own:
        yield
    shared.demo_listener = own.demo_listener


@pytest.fixture(autouse=True)
def _one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of a test count for one minute: with the next one, fewer would count."""
    now = time.time()
    monkeypatch.setattr(limits.storage.memory, "time", SimpleNamespace(time=lambda: now))


def signed_in(person: Member) -> Client:
    client = Client()
    client.force_login(person)
    return client


def make_recent(client: Client) -> Client:
    """Give the session of this browser a sign-in of a moment ago."""
    session = client.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
    session["account_authentication_methods_user"] = session["_auth_user_id"]
    session.save()
    return client


@pytest.fixture
def owner(db: Any) -> Member:
    """The member whose conversations a test is about."""
    return Member.objects.create_user("owner", password="owner-password")


@pytest.fixture
def admin(db: Any) -> Member:
    return Member.objects.create_superuser("admin", password="admin-password")


@pytest.fixture
def stranger(db: Any) -> Member:
    """A member in good standing with no right to anything of the owner's."""
    return Member.objects.create_user("stranger", password="stranger-password")


@pytest.fixture
def owner_client(owner: Member) -> Client:
    return signed_in(owner)


@pytest.fixture
def admin_client(admin: Member) -> Client:
    return signed_in(admin)


@pytest.fixture
def stranger_client(stranger: Member) -> Client:
    return signed_in(stranger)
