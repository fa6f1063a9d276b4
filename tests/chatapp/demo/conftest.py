"""The demo service on a loopback port of its own, and a notebook with two notes."""

from collections.abc import Iterator

import pytest

from chatapp.demo import notebook
from chatapp.demo.listener import Listener
from chatapp.models import Note


@pytest.fixture(scope="module")
def service() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.stop()


@pytest.fixture
def notes(transactional_db: None) -> None:
    Note.objects.create(title="Groceries", text="bread\noat milk")
    Note.objects.create(title="Ideas", text="a paper boat")


@pytest.fixture(autouse=True)
def quick_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "ARCHIVE_VOLUME_SECONDS", 0)
