"""Sends queued messages: at once when this process queued them and the answer ended in it, and soon
in all other cases."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Coroutine, Sequence
from contextvars import Context
from typing import Any

from django.conf import settings

from chatapp.journal.journal import Event, Kind
from chatapp.models import Turn
from chatapp.server.database import in_database
from chatapp.server.runtime import Runtime
from chatapp.telemetry import metrics

from .message_queue import find_sendable, send_next

log = logging.getLogger(__name__)


class QueueSender:
    """Watches the answers of this process in its event loop: `start`, then `close`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        # Chats that may have a queue. Most have none, and a look at the end of each answer would
        # cost every message a statement.
        self._queues: set[uuid.UUID] = set()

    def start(self) -> None:
        self._runtime.journal_listeners.append(self._note)
        self._spawn_task(self._look_repeatedly())

    async def close(self) -> None:
        self._runtime.journal_listeners.remove(self._note)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _note(self, events: Sequence[Event]) -> None:
        """Accept committed events of this process. Called in the thread that committed them."""
        for event in events:
            is_end = event.kind == Kind.TURN and event.data["state"] not in Turn.LIVE
            if is_end or event.kind == Kind.QUEUE:
                act = self._send_soon if is_end else self._queues.add
                with contextlib.suppress(RuntimeError):  # the loop is closing
                    self._loop.call_soon_threadsafe(act, event.conversation_id, context=Context())

    def _send_soon(self, conversation_id: uuid.UUID) -> None:
        if conversation_id in self._queues:
            self._spawn_task(self._send(conversation_id))

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_repeatedly(self) -> None:
        """Send what no process has sent: the answer may have ended elsewhere, or this process may
        have begun since."""
        while True:
            await asyncio.sleep(settings.SWEEP_SECONDS)
            try:
                chats = await in_database(find_sendable)
            except Exception:
                metrics.TASK_FAILURES.labels("queued_messages").inc()
                log.exception("Looking for queued messages failed; it is tried again")
                continue
            for conversation_id in chats:
                await self._send(conversation_id)

    async def _send(self, conversation_id: uuid.UUID) -> None:
        try:
            if not await in_database(send_next, conversation_id):
                self._queues.discard(conversation_id)
        except Exception:
            metrics.TASK_FAILURES.labels("queued_messages").inc()
            log.exception("A queued message was not sent; it is tried again")
