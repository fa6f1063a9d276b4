"""Django's sessions in the database. Each request reads one, so the query is compiled."""

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.db.models.functions import Now

from .compiled_queries import compiled


@compiled
def _load_session(key: str) -> QuerySet[Session]:
    return Session.objects.filter(session_key=key, expire_date__gt=Now())


class SessionStore(db.SessionStore):
    """The store of SESSION_ENGINE. Its name is part of the key that signs the sessions."""

    def _get_session_from_db(self) -> Session | None:
        if self.session_key is None:
            return None
        found = _load_session.first(self.session_key)
        if found is None:
            self._session_key = None
        return found
