"""Mail about what waits for a person: who wants it, and the reminders that were sent."""

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from chatapp.models.turns.tool_call import ToolCall


class MailPreference(models.Model):
    """Whether a person gets mail when something waits. Without a row they get none.

    No mail is sent before `next_at`; the process that advances it sends the mail. `refusals` counts
    how often in a row a server refused the address.
    """

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="mail_preference",
    )
    is_on = models.BooleanField(default=False)
    next_at = models.DateTimeField(default=timezone.now)
    refusals = models.PositiveSmallIntegerField(default=0)

    def __str__(self) -> str:
        return f"mail to {self.person_id}: {'on' if self.is_on else 'off'}"


class Reminder(models.Model):
    """One waiting item in a mail to this person. The signed link in the mail holds the id and opens
    the item once; it grants no right that the person does not have.

    `thing` identifies the item among several of the same call. Without `sent_at`, no server
    accepted the mail.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="+")
    thing = models.CharField(max_length=60)
    expires_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "call", "thing"], name="one_reminder_of_a_thing"
            )
        ]

    def __str__(self) -> str:
        return f"reminder of {self.thing} for {self.person_id}"
