"""A channel layer over PostgreSQL's LISTEN and NOTIFY, for installations without Redis.

Each process has one connection that listens and sends. It receives every message of the database
and keeps those of the groups that it has joined. Messages may be lost: while the connection is
away, when a queue is full, and in a transaction pooler, which cannot LISTEN. Nothing is stored.
"""

import asyncio
import json
import logging
import random
import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextvars import Context
from typing import Any

from channels.layers import BaseChannelLayer
from psycopg import AsyncConnection

log = logging.getLogger(__name__)
NOTIFICATION = "countersign_messages"
# PostgreSQL refuses a payload of 8000 bytes.
PAYLOAD_BYTES = 7_900
QUEUE_MESSAGES = 1_000
SEND_SECONDS = 5.0
FIRST_RETRY_SECONDS = 0.25
LAST_RETRY_SECONDS = 15.0
# The driver's names for Django's keys.
ADDRESS = {
    "dbname": "NAME",
    "user": "USER",
    "password": "PASSWORD",
    "host": "HOST",
    "port": "PORT",
}
# What Django reads from a database's OPTIONS itself and the driver does not know.
NOT_FOR_THE_DRIVER = {"assume_role", "isolation_level", "pool", "server_side_binding"}

Message = dict[str, Any]


class NotifyChannelLayer(BaseChannelLayer):
    """`database` is an entry of Django's DATABASES."""

    extensions = ["groups", "flush"]

    def __init__(self, *, database: Mapping[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._database = database
        self._lines: dict[asyncio.AbstractEventLoop, Line] = {}

    def _line(self) -> "Line":
        """Return the line of the running event loop. It ends with the loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            self._lines = {each: line for each, line in self._lines.items() if not each.is_closed()}
            self._lines[loop] = Line(build_parameters(self._database))
        return self._lines[loop]

    async def new_channel(self, prefix: str = "specific.") -> str:
        return self._line().open_channel(f"{prefix}{uuid.uuid4().hex}")

    async def receive(self, channel: str) -> Message:
        """Return the next message of this channel. Its sender may be this process."""
        return await self._line().receive(channel)

    async def group_add(self, group: str, channel: str) -> None:
        self._line().groups[group].add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self._line().leave(group, channel)

    async def group_send(self, group: str, message: Message) -> None:
        """Queue a message for this group. Raises ConnectionError while the connection is away."""
        await self._line().send(group, message)

    async def flush(self) -> None:
        """Forget the channels and groups of this process."""
        self._line().forget()


def build_parameters(database: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the driver needs to connect to this database."""
    options = {
        key: value
        for key, value in database.get("OPTIONS", {}).items()
        if key not in NOT_FOR_THE_DRIVER
    }
    return {
        **options,
        **{name: database[key] for name, key in ADDRESS.items() if database.get(key)},
        "application_name": "countersign messages",
        # A server that disappears while nothing is sent is noticed as well.
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


class Line:
    """The connection of one event loop, and what waits at its two ends."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self.groups: defaultdict[str, set[str]] = defaultdict(set)
        self._channels: dict[str, asyncio.Queue[Message]] = {}
        self._outbox: deque[str] = deque(maxlen=QUEUE_MESSAGES)
        self._something_to_do = asyncio.Event()
        self._was_tried = asyncio.Event()
        self._is_connected = False
        # A context of its own, since it outlives the request that it began in.
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._keep_connected(), context=Context())

    # --- channels and groups ---------------------------------------------------------------
    def open_channel(self, channel: str) -> str:
        self._channels[channel] = asyncio.Queue(QUEUE_MESSAGES)
        return channel

    async def receive(self, channel: str) -> Message:
        if channel not in self._channels:
            self.open_channel(channel)
        return await self._channels[channel].get()

    def leave(self, group: str, channel: str) -> None:
        self.groups[group].discard(channel)
        if not self.groups[group]:
            del self.groups[group]

    def forget(self) -> None:
        self.groups.clear()
        self._channels.clear()

    async def send(self, group: str, message: Message) -> None:
        await self._was_tried.wait()
        if not self._is_connected:
            raise ConnectionError("The connection to PostgreSQL for messages is away.")
        text = json.dumps([group, message], separators=(",", ":"))
        if len(text) > PAYLOAD_BYTES:
            raise ValueError("PostgreSQL cannot send a message of this length.")
        self._outbox.append(text)
        self._something_to_do.set()

    def _deliver(self, payload: str) -> None:
        try:
            messages = [(str(group), dict(message)) for group, message in json.loads(payload)]
        except (ValueError, TypeError):
            log.warning("A notification of PostgreSQL could not be read")
            return
        for group, message in messages:
            for channel in self.groups.get(group, ()):
                if queue := self._channels.get(channel):
                    _put_newest(queue, message)

    # --- the connection --------------------------------------------------------------------
    async def _keep_connected(self) -> None:
        wait_seconds = FIRST_RETRY_SECONDS
        while True:
            try:
                async with await AsyncConnection.connect(
                    **self._parameters, autocommit=True
                ) as connection:
                    await connection.execute(f"LISTEN {NOTIFICATION}")
                    wait_seconds = FIRST_RETRY_SECONDS
                    self._is_connected = True
                    self._was_tried.set()
                    await self._carry(connection)
            except Exception as error:
                log.warning(
                    "The connection to PostgreSQL for messages is away (%s); changes elsewhere are "
                    "found by polling until it is back",
                    type(error).__name__,
                )
            finally:
                self._is_connected = False
                self._was_tried.set()
                self._outbox.clear()
            # Not all processes at the same moment.
            await asyncio.sleep(wait_seconds * random.uniform(0.5, 1.5))  # noqa: S311
            wait_seconds = min(2 * wait_seconds, LAST_RETRY_SECONDS)

    async def _carry(self, connection: AsyncConnection[Any]) -> None:
        """Send what is queued and deliver what comes, until the connection fails."""
        while True:
            await self._wait_for_something(connection.fileno())
            if self._outbox:
                payloads = pack(self._outbox)
                self._outbox.clear()
                async with asyncio.timeout(SEND_SECONDS):
                    await connection.execute(
                        "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload",
                        [NOTIFICATION, payloads],
                    )
            async for notification in connection.notifies(timeout=0):
                self._deliver(notification.payload)

    async def _wait_for_something(self, descriptor: int) -> None:
        """Wait until the connection can be read or a message is to be sent.

        The driver watches the same descriptor while it works, so this ends before."""
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, self._something_to_do.set)
        try:
            await self._something_to_do.wait()
        finally:
            loop.remove_reader(descriptor)
        self._something_to_do.clear()


def pack(messages: Iterable[str]) -> list[str]:
    """Return as few payloads as possible that have these messages, in their order."""
    lists: list[list[str]] = []
    room = 0
    for message in messages:
        if len(message) + 1 > room:
            lists.append([])
            room = PAYLOAD_BYTES + 2
        lists[-1].append(message)
        room -= len(message) + 1
    return [f"[{','.join(each)}]" for each in lists]


def _put_newest(queue: asyncio.Queue[Message], message: Message) -> None:
    """Put a message into the queue. The oldest one goes if it is full."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(message)
