"""Three fixed people for every test, and the rule that CI skips nothing."""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.contenttypes.management import create_contenttypes
from django.db import connection
from django.db.models.signals import post_migrate
from django.test import Client
from pytest_django import DjangoDbBlocker

from chatapp.models import Member, log_guards
from chatapp.tools.catalogue import SHELVES


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test is a failed one where `CI` is set: nothing may quietly stop being checked."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and CI skips nothing: {report.longrepr}"
    return report


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl+C, and so would all that tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Their rows follow from the models. Made anew after each flush they were a tenth of all the time.
KEPT_TABLES = {"auth_permission", "django_content_type"}


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Tests empty all tables but two, which the log's guards refuse; the tests about the guards put
    them back."""
    with django_db_blocker.unblock():
        log_guards.remove(connection)
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.disconnect(create_contenttypes)
    introspection: Any = connection.introspection
    all_names = introspection.django_table_names
    introspection.django_table_names = lambda **how: [
        name for name in all_names(**how) if name not in KEPT_TABLES
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The file that holds the test that may take longest begins first, so that no process is left
    with it when the others are through."""
    longest: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        for limit in item.iter_markers("timeout"):
            longest[item.path] = max(longest[item.path], *limit.args)
    items.sort(key=lambda item: -longest[item.path])


def pytest_collection_finish() -> None:
    """What is loaded by now stays, so the collector need not look through it after each test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_kept_tools() -> None:
    """Rows of another test have the same ids, and nothing tells them apart."""
    SHELVES.clear()


def signed_in(person: Member) -> Client:
    client = Client()
    client.force_login(person)
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
