"""Who may watch is looked up once for all sockets that ask in the same moment."""

import asyncio
import uuid
from collections.abc import Collection

import pytest

from chatapp.live import rights
from chatapp.live.rights import RightsLookups, Watch
from chatapp.models import Member
from chatapp.server.database import in_database
from tests.chatapp.consumers.browser_socket import session_of

pytestmark = pytest.mark.django_db(transaction=True)


async def test_sockets_that_ask_together_are_looked_up_together_and_told_apart(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Collection[Watch]] = []
    real = rights.load_watchers

    def load(wanted: Collection[Watch]) -> dict[Watch, Member]:
        asked.append(wanted)
        return real(wanted)

    monkeypatch.setattr(rights, "load_watchers", load)
    session, lookups = await in_database(session_of, owner), RightsLookups()
    watches = [Watch(session, None), Watch("x" * 32, None), Watch(session, uuid.uuid4())]
    # A key that a database refuses must not make it refuse the others.
    made_up = Watch("\0", None)
    found = await asyncio.gather(*(lookups.find(watch) for watch in [*watches, made_up]))
    assert found == [owner, None, None, None]
    assert [set(wanted) for wanted in asked] == [set(watches)]
