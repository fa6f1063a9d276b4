"""Three fixed people for every test, and the rule that CI skips nothing."""

import os
from collections.abc import Generator
from typing import Any

import pytest
from django.test import Client

from chatapp.models import Member


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test is a failed one where `CI` is set: nothing may quietly stop being checked."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and CI skips nothing: {report.longrepr}"
    return report


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
