"""An engine at work, and programs with tokens of their own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from chatapp.faces import mcp_application
from chatapp.models import Member
from chatapp.storage import close_threads
from chatapp.turns.workplace import Workplace, close_workplace, open_workplace

from .program import Program


@pytest_asyncio.fixture
async def workplace(transactional_db: None) -> AsyncIterator[Workplace]:
    opened = await open_workplace(sweeps=False)
    yield opened
    await mcp_application.close()
    await close_workplace(opened)
    close_threads()


@pytest.fixture
def program(transactional_db: None, owner: Member) -> Program:
    return Program(owner)
