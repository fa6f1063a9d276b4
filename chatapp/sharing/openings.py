"""Who may open a shared link, and who did."""

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.http import Http404

from chatapp.audit.audit_log import Who
from chatapp.models import LogEntry, Member, SharedLink, SharedLinkReader

from . import links
from .tokens import read_token


def find_link(person: Member | None, token: str) -> SharedLink:
    """Return the link that this person, or with None a person who is not signed in, may open, or
    raise 404. The answer does not say whether a link that they may not open exists."""
    link_id = read_token(token)
    if link_id is None:
        raise Http404("No such link.")
    rows = SharedLink.objects.live().select_related("conversation__owner")
    link = rows.filter(pk=link_id).first()
    if link is None or not may_open(person, link):
        raise Http404("No such link.")
    return link


def may_open(person: Member | None, link: SharedLink) -> bool:
    if person is not None:
        return person.is_active
    return link.is_for_anyone and bool(settings.SHARE_WITH_ANYONE)


def count_opening(person: Member | None, link: SharedLink) -> None:
    """Count that somebody other than its owner opened the link."""
    if person != link.conversation.owner:
        SharedLink.objects.filter(pk=link.pk).update(opened=F("opened") + 1, opened_at=Now())


def note_reader(person: Member, link: SharedLink) -> None:
    """Log the first time that a member other than the owner opens the link."""
    if person == link.conversation.owner:
        return
    with transaction.atomic():
        _reader, is_new = SharedLinkReader.objects.get_or_create(link=link, person=person)
        if is_new:
            links.log(link, LogEntry.Kind.SHARE_OPENED, Who.of(person))
