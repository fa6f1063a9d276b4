"""One browser's socket. It only informs: it authorises, resumes and streams frames, and takes
no commands."""

import asyncio
import logging
import uuid
from typing import Any, cast
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from chatapp.person_socket import follow
from chatapp.socket_access import is_own_origin, watcher
from chatapp.storage import in_database
from chatapp.turns import workplace
from chatapp.turns.feed import Unresumable
from chatapp.turns.frames import frame_of, number_of
from chatapp.turns.live import Viewer

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 20.0
LOOK_SECONDS = 20.0
SEND_SECONDS = 10.0
SIGNED_OUT = 4401
UNRESUMABLE = 4409
FELL_BEHIND = 1013


class PersonConsumer(AsyncWebsocketConsumer):
    """Streams what a person's pages are shown wherever they are, as the state that it is in.

    It does not use the channel layer: losing that must not close a socket.
    """

    channel_layer_alias = "none"
    conversation_id: uuid.UUID | None = None
    person_id = 0
    _task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        scope = cast(dict[str, Any], self.scope)
        self.conversation_id = scope["url_route"]["kwargs"].get("conversation_id")
        self.session_key = scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        if not is_own_origin(scope) or await self._objection():
            await self.close()
            return
        await self.accept()
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        self._task = asyncio.create_task(self._stream(asked))

    async def disconnect(self, code: int) -> None:
        if self._task is not None:
            self._task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """What people do travels as HTTP posts; a frame from the browser means nothing here."""

    async def _objection(self) -> int:
        """The code to close with if this session may not watch, else 0.

        Where nobody can tell (the database is away) the socket is closed as well; the tab comes
        back, and is asked again.
        """
        try:
            person = await in_database(watcher, self.session_key, self.conversation_id)
        except Exception:
            log.exception("Who may watch %s could not be looked up", self.conversation_id)
            return FELL_BEHIND
        if person is None or self.person_id not in (0, person.pk):
            return SIGNED_OUT
        self.person_id = person.pk
        return 0

    async def _stream(self, asked: dict[str, list[str]]) -> None:
        """The one place where a socket ends: it is closed, with a reason."""
        try:
            code = await self._show(asked)
        except Unresumable:
            code = UNRESUMABLE
        except Exception:
            log.exception("A socket of %s ended early", self.conversation_id)
            code = FELL_BEHIND
        await self.close(code=code)

    async def _show(self, asked: dict[str, list[str]]) -> int:
        return await self._show_to(Viewer(), 0, asked)

    async def _show_to(self, viewer: Viewer, last: int, asked: dict[str, list[str]]) -> int:
        """Send frames until there is a reason to close; its code."""
        shows = asked.get("shows", [""])[0].split(",")
        watch = asyncio.create_task(self._watch_rights(viewer))
        person = asyncio.create_task(follow(self.person_id, self.conversation_id, shows, viewer))
        try:
            await self._send_frames(viewer, last)
        finally:
            watch.cancel()
            person.cancel()
        return watch.result() if watch.done() and not watch.cancelled() else FELL_BEHIND

    async def _send_frames(self, viewer: Viewer, last: int) -> None:
        while not viewer.fell_behind:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    frame = await viewer.frames.get()
            except TimeoutError:
                frame = frame_of(last, [])
            if viewer.fell_behind:
                break
            last = number_of(frame, last)
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(text_data=frame)

    async def _watch_rights(self, viewer: Viewer) -> int:
        """A person who signed out, or lost the account, stops receiving within seconds (A4)."""
        code = 0
        while not code:
            await asyncio.sleep(LOOK_SECONDS)
            code = await self._objection()
        viewer.drop()
        return code


class ConversationConsumer(PersonConsumer):
    """Streams one conversation's frames to its owner too, from the number after the last one
    seen."""

    async def _show(self, asked: dict[str, list[str]]) -> int:
        assert self.conversation_id is not None  # noqa: S101  the address has one
        hub, after = workplace.current().hub, _after(asked)
        viewer = await hub.join(self.conversation_id, after)
        try:
            return await self._show_to(viewer, after, asked)
        finally:
            hub.leave(self.conversation_id, viewer)


class NoSocket(AsyncWebsocketConsumer):
    """Any other address: refused without a trace in the log."""

    channel_layer_alias = "none"

    async def connect(self) -> None:
        await self.close()


def _after(asked: dict[str, list[str]]) -> int:
    """The last frame that the tab has seen; anything unreadable counts as none."""
    given = asked.get("after", ["0"])[0]
    return int(given) if given.isascii() and given.isdigit() and len(given) < 18 else 0
