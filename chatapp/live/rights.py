"""Who may watch a page: looked up together for all sockets that ask in the same moment."""

import asyncio
import uuid
from collections.abc import Collection
from contextvars import Context
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from chatapp.models import Conversation, Member
from chatapp.people.factor_policy import may_use_pages
from chatapp.server.database import in_database


@dataclass(frozen=True, slots=True)
class Watch:
    """What a socket wants to watch: the pages of its session's person, or one conversation."""

    session_key: str
    conversation_id: uuid.UUID | None


def load_watchers(wanted: Collection[Watch]) -> dict[Watch, Member]:
    """Return the person of each session that may watch this: an active member whose session has
    not expired and was not revoked, and who owns the conversation, which is not deleted. The
    others are left out."""
    sessions = Session.objects.filter(
        session_key__in={watch.session_key for watch in wanted}, expire_date__gt=timezone.now()
    )
    data = {session.session_key: session.get_decoded() for session in sessions}
    ids = {str(each.get(SESSION_KEY, "")) for each in data.values()}
    people = Member.objects.filter(pk__in=[int(each) for each in ids if each], is_active=True)
    members = {str(person.pk): person for person in people} if ids else {}
    persons = {
        key: person
        for key, each in data.items()
        if (person := members.get(str(each.get(SESSION_KEY, "")))) and _is_valid(each, person)
    }
    chats = {watch.conversation_id for watch in wanted if watch.conversation_id is not None}
    kept = Conversation.objects.filter(pk__in=chats, deleted_at=None)
    owned = kept.values_list("pk", "owner_id")
    owners: dict[uuid.UUID | None, int] = dict(owned) if chats and persons else {}
    return {
        watch: person
        for watch in wanted
        if (person := persons.get(watch.session_key))
        and (watch.conversation_id is None or owners.get(watch.conversation_id) == person.pk)
    }


def _is_valid(data: dict[str, str], person: Member) -> bool:
    """Whether the session was made for this person's password, by a way of signing in that is
    still in use, and has the second factor that the person needs."""
    is_same = constant_time_compare(data.get(HASH_SESSION_KEY, ""), person.get_session_auth_hash())
    is_in_use = data.get(BACKEND_SESSION_KEY) in settings.AUTHENTICATION_BACKENDS
    return is_same and is_in_use and may_use_pages(person, data)


class RightsLookups:
    """The lookups of one event loop."""

    def __init__(self) -> None:
        self._wanted: dict[Watch, asyncio.Future[Member | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def find(self, watch: Watch) -> Member | None:
        """Return the person who may watch this, if there is one."""
        if not watch.session_key.isalnum():  # made up: a database may refuse it, and with it others
            return None
        if watch not in self._wanted:
            self._wanted[watch] = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.create_task(self._look(), context=Context())
        return await asyncio.shield(self._wanted[watch])

    async def _look(self) -> None:
        await asyncio.sleep(0)  # the other sockets that were woken with this one ask now
        wanted, self._wanted, self._task = self._wanted, {}, None
        try:
            found = await in_database(load_watchers, list(wanted))
        except Exception as error:
            for answer in wanted.values():
                answer.set_exception(error)
                answer.exception()  # nobody may be left who asked
            return
        for watch, answer in wanted.items():
            answer.set_result(found.get(watch))
