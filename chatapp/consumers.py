"""One browser's socket. It only informs: it authorises, resumes and streams frames, and takes
no commands."""

import asyncio
import json
import logging
import uuid
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.http.request import split_domain_port, validate_host
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from chatapp.models import Conversation, Member
from chatapp.turns import workplace
from chatapp.turns.feed import Unresumable
from chatapp.turns.live import Viewer
from chatapp.turns.storage import in_database

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 20.0
LOOK_SECONDS = 20.0
SEND_SECONDS = 10.0
SIGNED_OUT = 4401
UNRESUMABLE = 4409
FELL_BEHIND = 1013


class ConversationConsumer(AsyncWebsocketConsumer):
    """Streams one conversation's frames to its owner, from the number after the last one seen.

    It does not use the channel layer: losing that must not close a socket.
    """

    channel_layer_alias = "none"
    _task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        scope = cast(dict[str, Any], self.scope)
        self.conversation_id: uuid.UUID = scope["url_route"]["kwargs"]["conversation_id"]
        self.session_key = scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        if not is_own_origin(scope) or not await self._may_watch():
            await self.close()
            return
        await self.accept()
        self._task = asyncio.create_task(self._stream(_after(scope)))

    async def disconnect(self, code: int) -> None:
        if self._task is not None:
            self._task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """What people do travels as HTTP posts; a frame from the browser means nothing here."""

    async def _may_watch(self) -> bool:
        return await in_database(may_watch, self.session_key, self.conversation_id)

    async def _stream(self, after: int) -> None:
        """The one place where what goes wrong with a socket ends: it is closed, with a reason."""
        try:
            await self._show(after)
        except Unresumable:
            await self.close(code=UNRESUMABLE)
        except Exception:
            log.exception("A socket of %s ended early", self.conversation_id)
            await self.close(code=FELL_BEHIND)

    async def _show(self, after: int) -> None:
        hub = workplace.current().hub
        viewer = await hub.join(self.conversation_id, after)
        watch = asyncio.create_task(self._watch_rights())
        try:
            await self._send_frames(viewer, after)
        finally:
            watch.cancel()
            hub.leave(self.conversation_id, viewer)

    async def _send_frames(self, viewer: Viewer, last: int) -> None:
        while not viewer.fell_behind:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    frame = await viewer.frames.get()
            except TimeoutError:
                frame = json.dumps({"n": last, "f": []})
            else:
                if viewer.fell_behind:
                    break
                last = int(frame[5 : frame.index(",")])
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(text_data=frame)
        await self.close(code=FELL_BEHIND)

    async def _watch_rights(self) -> None:
        """A person who signed out, or lost the account, stops receiving within seconds (A4)."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                may_watch_still = await self._may_watch()
            except Exception:
                log.exception("Rights could not be looked up; the socket is closed")
                return await self.close(code=FELL_BEHIND)
            if not may_watch_still:
                return await self.close(code=SIGNED_OUT)


class NoSocket(AsyncWebsocketConsumer):
    """Any other address: refused without a trace in the log."""

    channel_layer_alias = "none"

    async def connect(self) -> None:
        await self.close()


def _after(scope: dict[str, Any]) -> int:
    """The last frame that the tab has seen; anything unreadable counts as none."""
    given = parse_qs(scope["query_string"].decode("latin-1")).get("after", ["0"])[0]
    return int(given) if given.isascii() and given.isdigit() and len(given) < 18 else 0


def is_own_origin(scope: dict[str, Any]) -> bool:
    """Whether the page that opens the socket is ours: exact scheme, host and port (A1)."""
    headers = scope["headers"]
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if len(origins) != 1 or len(hosts) != 1:
        return False
    if settings.ALLOWED_ORIGINS:
        return origins[0] in settings.ALLOWED_ORIGINS
    host, _port = split_domain_port(hosts[0])
    origin = urlsplit(origins[0])
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    return (
        validate_host(host, settings.ALLOWED_HOSTS)
        and (origin.scheme, origin.netloc) == (scheme, hosts[0])
        and origins[0] == f"{scheme}://{hosts[0]}"
    )


def may_watch(session_key: str, conversation_id: uuid.UUID) -> bool:
    """Whether this session is alive now and its person owns the conversation."""
    session = Session.objects.filter(
        session_key=session_key, expire_date__gt=timezone.now()
    ).first()
    if session is None:
        return False
    data = session.get_decoded()
    person = Member.objects.filter(pk=data.get(SESSION_KEY, 0), is_active=True).first()
    if person is None or data.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return False
    if not constant_time_compare(data.get(HASH_SESSION_KEY, ""), person.get_session_auth_hash()):
        return False
    return Conversation.objects.filter(pk=conversation_id, owner=person).exists()
