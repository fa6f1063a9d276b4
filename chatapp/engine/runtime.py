"""The engine and the hub of a server, from the moment its event loop starts until it ends."""

import asyncio
from dataclasses import dataclass

from asgiref.sync import sync_to_async

from chatapp.audit.anchors import prepare_anchor_metrics
from chatapp.live.hub import Hub
from chatapp.server.database import keep_connection
from chatapp.server.runtime import current_runtime
from chatapp.telemetry import tracing
from mcpconfig.values.version import VERSION

from .engine import Engine


@dataclass(slots=True, kw_only=True)
class EngineRuntime:
    """The part of the runtime that needs an event loop: the engine moves turns, and the hub streams
    them to the tabs of this process."""

    engine: Engine
    hub: Hub
    is_open: bool = True


async def open_engine_runtime(*, sweeps: bool = True) -> EngineRuntime:
    """Start an engine and a hub in the running event loop and in the runtime of this process."""
    # Operations of turns use this thread, and pages must not delay them.
    await sync_to_async(keep_connection)()
    tracing.start(VERSION)
    prepare_anchor_metrics()
    runtime = current_runtime()
    opened = EngineRuntime(engine=Engine(runtime), hub=Hub(runtime))
    opened.hub.start()
    opened.engine.start(sweeps=sweeps)
    runtime.hub = opened.hub
    return opened


async def close_engine_runtime(opened: EngineRuntime, *, wait_seconds: float = 0) -> None:
    """Release every turn, then stop the hub. What is running may end within `wait_seconds`.
    Closing twice is harmless."""
    if not opened.is_open:
        return
    opened.is_open = False
    runtime = current_runtime()
    if runtime.hub is opened.hub:
        runtime.hub = None
    await opened.engine.close(wait_seconds=wait_seconds)
    await opened.hub.close()
    await asyncio.to_thread(tracing.stop)
