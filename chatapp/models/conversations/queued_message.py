"""Messages that wait for the answer in progress."""

import uuid

from django.db import models

from .conversation import Conversation


class QueuedMessage(models.Model):
    """A message that is sent once the answer in progress is complete. The first of a chat is sent
    first.

    `client_id` becomes that of the message, so that it is sent once. `attachments` are ids of
    unsent attachments as text. `problem` says why it was not sent; it then waits for its person.
    `is_urgent`: it goes first, also after an answer that was stopped.
    """

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="queued_messages"
    )
    client_id = models.UUIDField(default=uuid.uuid4, unique=True)
    text = models.TextField()
    attachments = models.JSONField(default=list)
    model = models.CharField(max_length=200)
    effort = models.CharField(max_length=10, blank=True)
    problem = models.TextField(blank=True)
    is_urgent = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-is_urgent", "pk"]

    def __str__(self) -> str:
        return self.text[:80]
