"""Who may open a socket: a page of ours, by a session that is alive, for what its person owns."""

import uuid
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.http.request import split_domain_port, validate_host
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from chatapp.models import Conversation, Member


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


def person_of(session_key: str) -> Member | None:
    """The active member whose session is alive now."""
    session = Session.objects.filter(
        session_key=session_key, expire_date__gt=timezone.now()
    ).first()
    if session is None:
        return None
    data = session.get_decoded()
    person = Member.objects.filter(pk=data.get(SESSION_KEY, 0), is_active=True).first()
    if person is None or data.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    if not constant_time_compare(data.get(HASH_SESSION_KEY, ""), person.get_session_auth_hash()):
        return None
    return person


def watcher(session_key: str, conversation_id: uuid.UUID | None) -> Member | None:
    """The person of this session, if they may watch this conversation; with none, what waits for
    themselves."""
    person = person_of(session_key)
    if person is None or conversation_id is None:
        return person
    owns = Conversation.objects.filter(pk=conversation_id, owner=person).exists()
    return person if owns else None
