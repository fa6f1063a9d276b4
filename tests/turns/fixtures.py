"""A person, their conversation and a turn; an engine with a scripted model and real services."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from chatapp.conversations import intake
from chatapp.demo.seed import seed
from chatapp.engine import engine
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.live import hub
from chatapp.models import Conversation, Member, Note, Turn
from chatapp.providers import registry
from chatapp.server.database import close_threads
from mcpconfig.models import Service
from tests import scripted

from .second_signers import member, two_sign


@pytest.fixture(autouse=True)
def _scripted_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.PROVIDERS, "scripted", scripted.PROVIDER)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-never-used")
    scripted.scenes.clear()
    scripted.requests.clear()
    scripted.limits.clear()
    scripted.closed.clear()
    yield
    close_threads()


@pytest.fixture
def owner(transactional_db: None) -> Member:
    return Member.objects.create_user("owner", password="a-long-password")


@pytest.fixture
def ada(owner: Member) -> Member:
    """Whoever else has to sign, where two people do."""
    two_sign()
    return member("ada", "Operations")


@pytest.fixture
def conversation(turn: Turn) -> Conversation:
    return turn.conversation


@pytest.fixture
def turn(owner: Member) -> Turn:
    """A queued turn that nobody has touched."""
    return intake.receive(owner, None, text="Tidy up, please", model=scripted.MODEL)


@pytest_asyncio.fixture
async def runtime(turn: Turn) -> AsyncIterator[EngineRuntime]:
    """An engine and a hub, as a server has them, but without the sweep.

    `turn` was queued before the engine listened, so it moves when a test says so.
    """
    opened = await open_engine_runtime(sweeps=False)
    yield opened
    await close_engine_runtime(opened)
    close_threads()


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Background tasks that start afterwards do not run again: tests that count statements name
    this before the engine."""
    monkeypatch.setattr(hub, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(engine, "STOP_CHECK_SECONDS", 3600.0)
    settings.LEASE_SECONDS = 10_800


@pytest.fixture
def notebook(transactional_db: None) -> Service:
    seed()
    Note.objects.update_or_create(title="Old ideas", defaults={"text": "Nothing of worth."})
    return Service.objects.get(name="notebook")
