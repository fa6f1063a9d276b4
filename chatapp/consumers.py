"""The sockets of a browser: who may open one, and what it streams.

A socket only informs. It checks the person's rights, sends the frames of a conversation from the
number after the last one that the tab has, and sends the fragments that pages show beside it, such
as the inbox. It accepts no commands: those are HTTP posts.
"""

import asyncio
import contextlib
import logging
import math
import re
import uuid
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http import Http404
from django.http.request import split_domain_port, validate_host
from django.utils import timezone
from django.utils.translation import activate, gettext_lazy

from chatapp.live.page_facts import load_call_facts, render_call
from chatapp.live.shown_cards import show_rows
from chatapp.rendering.pages import inbox

from .approvals.attention_checks import find_for_chat, render_for_chat
from .approvals.inbox import (
    count_old_outcomes,
    count_waiting,
    get_opened,
    list_others,
    list_waiting,
)
from .live.feed import Unresumable
from .live.frames import build_frame, build_state_frame, parse_number
from .live.hub import Viewer, current_hub
from .live.rights import Watch
from .models import Conversation, Member
from .people.second_signers import get_call
from .rendering import page_values
from .rendering.pages import fragments, second_signature
from .server.database import in_database
from .server.languages import find_socket_language
from .server.locales import get_locale
from .server.runtime import current_runtime
from .server.time_zones import find_zone
from .telemetry import log_ids, metrics
from .tool_menu.menu import render_button

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 20.0
SEND_SECONDS = 10.0
# How often the person's rights are checked again without a signal.
RIGHTS_SECONDS = 20.0
# Idle sockets wake at common moments, so many in an interval, as each waking of the process costs
# more than what a socket has to do.
MOMENTS_IN_INTERVAL = 4
# How often fragments that depend on the time are rendered again without a signal, and the others.
REFRESH_SECONDS = 20.0
SLOW_REFRESH_SECONDS = 60.0
# The shortest time between two looks.
PACE_SECONDS = 0.1
MAX_FRAGMENTS = 8
TOO_MANY = gettext_lazy("You have too many pages open. Close some, then reload this one.")
TOO_MANY_RETRY_SECONDS = 30
Rendering = asyncio.Task[dict[str, str]]
# Close codes.
SIGNED_OUT = 4401
UNRESUMABLE = 4409
FELL_BEHIND = 1013
# What sending raises after the browser has left: an OSError as ASGI demands, also if it does not
# read any more, or uvicorn's RuntimeError if the closing handshake has begun.
CONNECTION_GONE = (OSError, RuntimeError)


# --- access --------------------------------------------------------------------------------
def is_own_origin(scope: dict[str, Any]) -> bool:
    """Whether the page that opens the socket has this server's exact scheme, host and port."""
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


# --- fragments beside a conversation -------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Whose page it is, the conversation that is open on it, and the id of the row that the element
    shows."""

    person: Member
    conversation_id: uuid.UUID | None
    row_id: uuid.UUID | None

    @property
    def row(self) -> uuid.UUID:
        if self.row_id is None:
            raise Http404("This element belongs to a row.")
        return self.row_id


def _render_badge(page: Page) -> str:
    # A new card in the open conversation announces itself.
    return inbox.render_badge(count_waiting(page.person), says=page.conversation_id is None)


def _render_inbox(page: Page) -> str:
    opened = get_opened(page.person, page.row_id) if page.row_id else None
    waiting = list_waiting(page.person, opened)
    return inbox.render_inbox(
        waiting,
        count_old_outcomes(page.person),
        page.row_id,
        facts={} if opened else show_rows(waiting),
    )


def _render_next(page: Page) -> str:
    return inbox.render_next(list_others(page.person, page.row), page.row)


def _render_tool_call(page: Page) -> str:
    call = get_call(page.person, page.row)
    is_own = call.turn.conversation.owner_id == page.person.pk
    if is_own:
        return render_call(call)
    return second_signature.render_card(call, load_call_facts(call))


def _render_more_requests(page: Page) -> str:
    if page.conversation_id is None:
        return ""
    return render_for_chat(find_for_chat(page.person, page.conversation_id))


def _render_tools(page: Page) -> str:
    chat = Conversation.of(page.person, page.conversation_id) if page.conversation_id else None
    return render_button(page.person, chat, is_live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """How a fragment is rendered, and when it changes although no row does.

    One that `tells_time` says how long ago something was, and one that `counts_time` depends on
    times that come or pass. One that is not `of_chat` only depends on whether a chat is open.
    """

    render: Callable[[Page], str]
    tells_time: bool = False
    counts_time: bool = False
    of_chat: bool = True


# The fragments that a page may name in `shows` of its socket's address, by the id of their root
# element without the id of a row that may follow. With `data-keep` on it, the page replaces it only
# when it changes.
FRAGMENTS: dict[str, Fragment] = {
    page_values.WAITING_ID: Fragment(render=_render_badge, counts_time=True, of_chat=False),
    page_values.INBOX_ID: Fragment(render=_render_inbox, tells_time=True),
    "next": Fragment(render=_render_next, tells_time=True),
    "tool-call": Fragment(render=_render_tool_call, tells_time=True),
    page_values.TOOLS_ID: Fragment(render=_render_tools),
    page_values.MORE_ID: Fragment(render=_render_more_requests),
}
ELEMENT_ID = re.compile(r"([a-z-]+?)(?:-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element of the page that shows a fragment."""

    id: str
    fragment: str
    row_id: uuid.UUID | None


def parse_elements(element_ids: Iterable[str]) -> list[Element]:
    """Return the elements that show a known fragment, at most `MAX_FRAGMENTS`."""
    matches = [match for each in element_ids if (match := ELEMENT_ID.fullmatch(each))]
    return [
        Element(id=match[0], fragment=match[1], row_id=uuid.UUID(match[2]) if match[2] else None)
        for match in matches
        if match[1] in FRAGMENTS
    ][:MAX_FRAGMENTS]


def render_elements(
    person_id: int, conversation_id: uuid.UUID | None, elements: Iterable[Element]
) -> dict[str, str]:
    """Return the HTML of each element by its id, without those that are gone or that this person
    may not see."""
    person = Member.objects.get(pk=person_id)
    rendered = {}
    for each in elements:
        page = Page(person=person, conversation_id=conversation_id, row_id=each.row_id)
        with contextlib.suppress(Http404):
            rendered[each.id] = FRAGMENTS[each.fragment].render(page)
    return rendered


async def load_elements(
    person_id: int, conversation_id: uuid.UUID | None, elements: Iterable[Element]
) -> dict[str, str]:
    """Return the same. What was rendered since the last commit is not rendered again, and pages
    that ask in the same moment share it."""
    cache, committed = current_runtime().rendered_fragments, current_hub().commits.read_state()
    moment = int(asyncio.get_running_loop().time() / REFRESH_SECONDS * MOMENTS_IN_INTERVAL)
    found: dict[str, Rendering] = {}
    missing: dict[Element, tuple[Hashable, object]] = {}
    key: Hashable
    state: object
    for each in elements:
        fragment = FRAGMENTS[each.fragment]
        chat = conversation_id if fragment.of_chat else conversation_id is None
        key = (person_id, chat, each.id, get_locale())
        state = (committed, moment if fragment.counts_time else None)
        if (cached := cache.get(key, state)) and not _has_failed(cached[0]):
            found[each.id] = cached[0]
        else:
            missing[each] = key, state
    if missing:
        work = in_database(render_elements, person_id, conversation_id, list(missing))
        rendering = asyncio.create_task(work)
        rendering.add_done_callback(_has_failed)  # all who asked may be gone
        for each, (key, state) in missing.items():
            found[each.id] = rendering
            if not FRAGMENTS[each.fragment].tells_time:
                cache.put(key, state, (rendering,))
    rendered = {element_id: await asyncio.shield(each) for element_id, each in found.items()}
    return {
        element_id: html[element_id] for element_id, html in rendered.items() if element_id in html
    }


def _has_failed(rendering: Rendering) -> bool:
    return rendering.done() and (rendering.cancelled() or rendering.exception() is not None)


def _is_timed(element: Element) -> bool:
    fragment = FRAGMENTS[element.fragment]
    return fragment.tells_time or fragment.counts_time


class ShownFragments:
    """The fragments that one page shows. They are sent at once, and then each time they change.

    A fragment is sent whole and unnumbered, so the next one makes up for one that was lost.
    """

    def __init__(self, element_ids: Iterable[str]) -> None:
        self._elements = parse_elements(element_ids)
        self._timed = [each for each in self._elements if _is_timed(each)]
        self._shown: dict[str, int] = {}  # the hash of each, by the id of its element
        # When all are rendered again without a signal, in the loop's time: at once after a failure.
        self._all_at = -math.inf

    @property
    def refresh_seconds(self) -> float:
        """The time until the next look without a signal."""
        if not self._elements:
            return math.inf
        has_failed = self._all_at == -math.inf
        return REFRESH_SECONDS if self._timed or has_failed else SLOW_REFRESH_SECONDS

    async def send_changes(
        self,
        person_id: int,
        conversation_id: uuid.UUID | None,
        viewer: Viewer,
        *,
        is_signalled: bool,
    ) -> None:
        """Send those that changed. Without a signal, those that do not depend on the time are
        rendered less often."""
        if not self._elements:
            return
        is_due = is_signalled or asyncio.get_running_loop().time() >= self._all_at
        try:
            elements = self._elements if is_due else self._timed
            fresh = await load_elements(person_id, conversation_id, elements)
        except Exception:
            log.exception(
                "What is shown to person %s could not be read; it is tried again", person_id
            )
            self._all_at = -math.inf
            return
        if is_due:
            self._all_at = find_common_moment(SLOW_REFRESH_SECONDS)
        # The time at which a card was rendered is no change: the page keeps the first one.
        timeless = {key: hash(fragments.strip_shown_at(html)) for key, html in fresh.items()}
        keys = [key for key, html in timeless.items() if self._shown.get(key) != html]
        if keys:
            viewer.take(build_state_frame([("o", key, fresh[key]) for key in keys]))
        self._shown |= timeless


# --- sockets -------------------------------------------------------------------------------
class TabLeft(Exception):
    """The browser closed the connection. The server may find that out only when it sends."""


def find_common_moment(seconds: float) -> float:
    """Return the last common moment, in the loop's time, before so many seconds are over."""
    pace = seconds / MOMENTS_IN_INTERVAL
    return math.floor((asyncio.get_running_loop().time() + seconds) / pace) * pace


class PersonConsumer(AsyncWebsocketConsumer):
    """The socket of a page without a conversation: streams the fragments that it shows.

    It does not use the channel layer, whose loss must not close a socket.
    """

    channel_layer_alias = "none"
    conversation_id: uuid.UUID | None = None
    person_id = 0
    _has_place = False
    _signals_heard = 0  # by this process, before the rights were checked first
    _kind = ""  # as the metrics count it, while it is open
    _task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        scope = cast(dict[str, Any], self.scope)
        self.conversation_id = scope["url_route"]["kwargs"].get("conversation_id")
        self.session_key = scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        if not is_own_origin(scope):
            await self.close()
            return
        activate(find_socket_language(scope))  # in the context of this socket
        self._signals_heard = current_hub().signals_heard
        if await self._check_rights():
            await self.close()
            return
        if not self._claim_place():
            await self._refuse_number()
            return
        try:
            await self.accept()
        except BaseException:
            # The browser has left meanwhile, and nothing calls `disconnect`.
            self._free_place()
            raise
        self._kind = "page" if self.conversation_id is None else "chat"
        metrics.OPEN_SOCKETS.labels(self._kind).inc()
        query = parse_qs(scope["query_string"].decode("latin-1"))
        self._task = asyncio.create_task(self._run(query))

    async def disconnect(self, code: int) -> None:
        self._free_place()
        if self._kind:
            metrics.OPEN_SOCKETS.labels(self._kind).dec()
            self._kind = ""
        if self._task is not None:
            self._task.cancel()

    def _claim_place(self) -> bool:
        """Count this socket, unless the person has SOCKETS_PER_PERSON open in this process."""
        open_sockets = current_runtime().open_sockets
        if open_sockets[self.person_id] < settings.SOCKETS_PER_PERSON:
            open_sockets[self.person_id] += 1
            self._has_place = True
        return self._has_place

    def _free_place(self) -> None:
        if self._has_place:
            self._has_place = False
            open_sockets = current_runtime().open_sockets
            open_sockets[self.person_id] -= 1
            if not open_sockets[self.person_id]:
                del open_sockets[self.person_id]

    async def _refuse_number(self) -> None:
        """Answer 429. The page says that it is not live, and tries again less and less often."""
        messages: list[Any] = [
            {
                "type": "websocket.http.response.start",
                "status": 429,
                "headers": [(b"retry-after", b"%d" % TOO_MANY_RETRY_SECONDS)],
            },
            {"type": "websocket.http.response.body", "body": str(TOO_MANY).encode()},
        ]
        for message in messages:
            await self.base_send(message)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore what the browser sends: commands are HTTP posts."""

    async def _check_rights(self) -> int:
        """Return 0, or the close code if this session may not watch. What this task renders shows
        times in the zone of the person.

        While the database is away the socket is closed too: the tab reconnects and is checked then.
        """
        try:
            person = await current_hub().rights.find(Watch(self.session_key, self.conversation_id))
        except Exception:
            log.exception("Who may watch %s could not be looked up", self.conversation_id)
            return FELL_BEHIND
        if person is None or self.person_id not in (0, person.pk):
            return SIGNED_OUT
        self.person_id = person.pk
        timezone.activate(find_zone(person.time_zone))
        log_ids.note_person(person.pk)
        return 0

    async def _run(self, query: dict[str, list[str]]) -> None:
        """Stream until there is a reason to close, then close with its code."""
        try:
            code = await self._stream(query)
        except TabLeft as left:
            return log.debug("A tab of %s left: %r", self.conversation_id, left.__cause__)
        except Unresumable:
            code = UNRESUMABLE
        except Exception:
            log.exception("A socket of %s ended early", self.conversation_id)
            code = FELL_BEHIND
        with contextlib.suppress(*CONNECTION_GONE):
            await self.close(code=code)

    async def _stream(self, query: dict[str, list[str]]) -> int:
        return await self._stream_to(Viewer(), 0, query)

    async def _stream_to(self, viewer: Viewer, last: int, query: dict[str, list[str]]) -> int:
        """Send frames until there is a reason to close; return its code."""
        ids = query.get("shows", [""])[0].split(",")
        watch = asyncio.create_task(self._watch(viewer, ShownFragments(ids)))
        try:
            await self._send_frames(viewer, last)
        finally:
            watch.cancel()
        return watch.result() if watch.done() and not watch.cancelled() else FELL_BEHIND

    async def _send_frames(self, viewer: Viewer, last: int) -> None:
        while not viewer.fell_behind:
            try:
                async with asyncio.timeout_at(find_common_moment(HEARTBEAT_SECONDS)):
                    frame = await viewer.frames.get()
            except TimeoutError:
                frame = build_frame(last, [])
            if viewer.fell_behind:
                break
            last = parse_number(frame, last)
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self.send(text_data=frame)
            except CONNECTION_GONE as error:
                raise TabLeft from error

    async def _watch(self, viewer: Viewer, shown: ShownFragments) -> int:
        """Send fragments, and drop the viewer once the person has signed out or lost the account.

        The end of a session and most changes of fragments are signalled. A change of the account is
        found by the next check.
        """
        hub, code = current_hub(), 0
        changed = await hub.join_person(self.person_id)
        try:
            # The session may have ended since it was checked. A signal in another process is found
            # by the next poll.
            if self._signals_heard != hub.signals_heard:
                code = await self._check_rights()
            is_signalled = True
            while not code:
                await shown.send_changes(
                    self.person_id, self.conversation_id, viewer, is_signalled=is_signalled
                )
                code = await self._wait_for_signal(changed, shown.refresh_seconds)
                is_signalled = changed.is_set()
                changed.clear()
                code = code or await self._check_rights()
        finally:
            hub.leave_person(self.person_id, changed)
        viewer.drop()
        return code

    async def _wait_for_signal(self, changed: asyncio.Event, refresh_seconds: float) -> int:
        """Check the rights again and again until there is a signal, or until `refresh_seconds` are
        over. Return the close code if they are lost."""
        now = asyncio.get_running_loop().time
        has_end = refresh_seconds < math.inf
        refreshes_at = find_common_moment(refresh_seconds) if has_end else math.inf
        await asyncio.sleep(PACE_SECONDS)
        code = 0
        while not code and not changed.is_set() and now() < refreshes_at:
            next_check = find_common_moment(RIGHTS_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(next_check, refreshes_at)):
                    await changed.wait()
            if not changed.is_set() and now() < refreshes_at:
                code = await self._check_rights()
        return code


class ConversationConsumer(PersonConsumer):
    """The socket of a conversation's page: streams its frames to its owner too."""

    conversation_id: uuid.UUID

    async def _stream(self, query: dict[str, list[str]]) -> int:
        hub, after = current_hub(), _parse_after(query)
        viewer = await hub.join(self.conversation_id, after)
        try:
            return await self._stream_to(viewer, after, query)
        finally:
            hub.leave(self.conversation_id, viewer)


class NoSocket(AsyncWebsocketConsumer):
    """Refuses a socket at any other address, without an entry in the log."""

    channel_layer_alias = "none"

    async def connect(self) -> None:
        await self.close()


def _parse_after(query: dict[str, list[str]]) -> int:
    """Return the number of the last frame that the tab has, or 0."""
    text = query.get("after", ["0"])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0
