"""The sessions of a person: where they are signed in, and how that ends."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allauth.usersessions.models import UserSession
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.audit.audit_log import Who
from chatapp.models import LogEntry, Member

from . import entries

# The first word that a browser's name has in its header. Edge and Opera also name Chrome, and
# Chrome also names Safari.
BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedInDevice:
    """One session as the settings page shows it."""

    id: int
    name: str
    address: str
    last_seen_at: datetime
    is_current: bool
    is_phone: bool


def list_devices(member: Member, current_key: str | None) -> list[SignedInDevice]:
    """Return the sessions of a member, the current one first, then by when they were seen."""
    found = _list_live(member)
    devices = [
        SignedInDevice(
            id=row.pk,
            name=describe_device(row.user_agent),
            address=row.ip,
            last_seen_at=row.last_seen_at,
            is_current=row.session_key == current_key,
            is_phone=is_phone(row.user_agent),
        )
        for row in found
    ]
    return sorted(
        devices, key=lambda device: (not device.is_current, -device.last_seen_at.timestamp())
    )


def _list_live(member: Member) -> list[UserSession]:
    """Return the rows of sessions that have not ended, and delete the others. The number of
    statements does not grow with the sessions."""
    listed = list(UserSession.objects.filter(user=member))
    keys = [row.session_key for row in listed]
    stored = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    hashes = {member.get_session_auth_hash(), *member.get_session_auth_fallback_hash()}
    live = {
        each.session_key for each in stored if each.get_decoded().get(HASH_SESSION_KEY) in hashes
    }
    if ended := [row.pk for row in listed if row.session_key not in live]:
        UserSession.objects.filter(pk__in=ended).delete()
    return [row for row in listed if row.session_key in live]


def describe_device(user_agent: str) -> str:
    browser = next((name for word, name in BROWSERS if word in user_agent), "")
    system = next((name for word, name in SYSTEMS if word in user_agent), "")
    if browser and system:
        return _("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or system or _("Unknown device")


def is_phone(user_agent: str) -> bool:
    return any(word in user_agent for word in ("Android", "iPhone", "Mobile"))


def end_session(member: Member, session_id: int, by: Who | None = None) -> bool:
    """End one session of this member, and with it its open pages. `by`: who ended it, if not the
    member."""
    with transaction.atomic():
        row = UserSession.objects.filter(user=member, pk=session_id).first()
        if row is None:
            return False
        row.end()
        entries.write(LogEntry.Kind.SESSIONS_ENDED, member, by, count=1)
    return True


def end_sessions(member: Member, *, but: str | None = None) -> int:
    """End all sessions of this member except the one with the key `but`. Return how many ended.

    Sessions name their person only inside, so all are read. That also finds those without a row in
    the list.
    """
    ended = 0
    for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator():
        if session.get_decoded().get(SESSION_KEY) == str(member.pk) and session.session_key != but:
            session.delete()
            ended += 1
    UserSession.objects.filter(user=member).exclude(session_key=but or "").delete()
    return ended


def end_other_sessions(member: Member, current_key: str | None) -> int:
    with transaction.atomic():
        ended = end_sessions(member, but=current_key)
        entries.write(LogEntry.Kind.SESSIONS_ENDED, member, count=ended)
    return ended


def end_all_sessions(member: Member, by: Who) -> int:
    """End every session of this member. Return how many ended."""
    with transaction.atomic():
        ended = end_sessions(member)
        if ended:
            entries.write(LogEntry.Kind.SESSIONS_ENDED, member, by, count=ended)
    return ended


def note_activity(session_key: str, address: str) -> None:
    """Store when and from where a session was used last."""
    UserSession.objects.filter(session_key=session_key).update(
        last_seen_at=timezone.now(), ip=address
    )


def list_new_session(request: Any) -> None:
    """List the session under its new key, after a password was changed."""
    UserSession.objects.create_from_request(request)
