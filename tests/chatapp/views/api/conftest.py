"""An engine at work, and programs with tokens of their own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.models import Member
from chatapp.server.database import close_threads
from chatapp.views.api import mcp

from .mcp_program import Program


@pytest_asyncio.fixture
async def runtime(transactional_db: None) -> AsyncIterator[EngineRuntime]:
    opened = await open_engine_runtime(sweeps=False)
    yield opened
    await mcp.close()
    await close_engine_runtime(opened)
    close_threads()


@pytest.fixture
def program(transactional_db: None, owner: Member) -> Program:
    return Program(owner)
