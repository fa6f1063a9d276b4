"""The message that a person has begun in a chat and not sent yet."""

from django.conf import settings
from django.db import models

from .conversation import Conversation


class MessageDraft(models.Model):
    """The content of a message box: of a chat, or of the page of a new chat if `conversation` is
    empty. `attachments` are ids of unsent attachments as text.

    `client_id` is the id that the message will have: it tells whether the draft was sent, and a
    page that shows the draft sends it back. `replaced_id` is the id of a page whose content the
    server changed, so that what this page still saves does not count.
    """

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="message_drafts"
    )
    conversation = models.OneToOneField(
        Conversation, on_delete=models.CASCADE, null=True, related_name="message_draft"
    )
    text = models.TextField(blank=True)
    attachments = models.JSONField(default=list)
    client_id = models.UUIDField(null=True)
    replaced_id = models.UUIDField(null=True)
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner"],
                condition=models.Q(conversation=None),
                name="one_draft_of_a_new_chat",
            )
        ]

    def __str__(self) -> str:
        return self.text[:80]
