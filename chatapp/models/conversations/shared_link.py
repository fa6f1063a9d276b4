"""Links that show a chat to others, read-only."""

import uuid
from typing import Self

from django.conf import settings
from django.db import models
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatapp.models.people.member import Member

from .conversation import Conversation, Message

ID_CHARACTERS = 8


class SharedLinks(models.QuerySet["SharedLink"]):
    def live(self) -> Self:
        """Return the links that open their chat now: neither revoked nor expired, of an active
        member, and of a chat that is not deleted."""
        endless = models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now())
        return self.filter(
            endless,
            revoked_at=None,
            conversation__deleted_at=None,
            conversation__owner__is_active=True,
        )

    def ended(self) -> Self:
        """Return the links that were revoked or have expired."""
        is_expired = models.Q(expires_at__lte=timezone.now())
        return self.filter(is_expired | models.Q(revoked_at__isnull=False))


class SharedLink(models.Model):
    """A link to a chat as it was at `taken_at`. Its secret is not stored (`sharing.tokens`).

    The link shows the messages from the first one to `last_message`, with the parts that existed
    then: none has a higher id than `last_part`. `title`, `messages` and `last_state`, the state of
    the turn of the last answer, are those of that time. Older links have no state.
    """

    class Audience(models.TextChoices):
        MEMBERS = "members", _("people here")
        ANYONE = "anyone", _("anyone with the link")

    class Tools(models.TextChoices):
        """The values of `rendering.exports.values.ToolDetail`."""

        NONE = "none", _("no tool calls")
        OUTCOMES = "outcomes", _("names and outcomes of tool calls")
        FULL = "full", _("tool calls with arguments and results")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation,
        verbose_name=_("chat"),
        on_delete=models.CASCADE,
        related_name="shared_links",
    )
    audience = models.CharField(_("who can open it"), max_length=7, choices=Audience.choices)
    tools = models.CharField(_("tool calls"), max_length=8, choices=Tools.choices)
    includes_files = models.BooleanField(_("includes attached files"))
    title = models.CharField(_("title"), max_length=80, blank=True)
    last_message = models.ForeignKey(
        Message, verbose_name=_("last message"), on_delete=models.CASCADE, related_name="+"
    )
    last_part = models.PositiveBigIntegerField(_("last part"))
    last_state = models.CharField(
        _("state of the last answer"), max_length=8, blank=True, default="", db_default=""
    )
    messages = models.PositiveIntegerField(_("messages"))
    taken_at = models.DateTimeField(_("shared as of"))
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires at"), null=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True)
    opened = models.PositiveIntegerField(_("times opened"), default=0)
    opened_at = models.DateTimeField(_("last opened at"), null=True)

    objects = SharedLinks.as_manager()

    class Meta:
        verbose_name = _("shared link")
        verbose_name_plural = _("shared links")
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return str(self.pk)[:ID_CHARACTERS]

    @classmethod
    def filter_owned(cls, person: Member) -> SharedLinks:
        """Return the links to the chats of this person, without those of deleted chats."""
        mine = cls.objects.filter(conversation__owner=person, conversation__deleted_at=None)
        return mine.select_related("conversation")

    @classmethod
    def of(cls, person: Member, link_id: uuid.UUID) -> "SharedLink":
        """Return a link to a chat of this person, or raise 404."""
        found = cls.filter_owned(person).filter(pk=link_id).first()
        if found is None:
            raise Http404("No such link.")
        found.conversation.owner = person
        return found

    @property
    def has_ended(self) -> bool:
        is_expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.revoked_at is not None or is_expired

    @property
    def is_for_anyone(self) -> bool:
        return self.audience == self.Audience.ANYONE


class SharedLinkReader(models.Model):
    """A member who opened a link. The first time is logged."""

    link = models.ForeignKey(SharedLink, on_delete=models.CASCADE, related_name="readers")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="opened_links"
    )
    opened_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["link", "person"], name="one_reader_of_a_link")
        ]

    def __str__(self) -> str:
        return f"{self.person} of {self.link}"
