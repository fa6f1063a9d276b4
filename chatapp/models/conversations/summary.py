"""Summaries: what a model reads instead of the older part of a long conversation."""

import uuid
from functools import cached_property
from typing import Self

from django.db import models
from django.http import Http404
from django.utils.translation import gettext_lazy as _

from chatapp.models.people.member import Member

from .conversation import Conversation, Part


class Summary(models.Model):
    """The first `turns` questions and answers of a conversation in short, as `model` wrote it.

    Nothing is removed from the conversation: while `is_used` is off, the model reads all of it
    again. `part` is the notice about the summary.
    """

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="summaries"
    )
    part = models.OneToOneField(Part, on_delete=models.CASCADE, related_name="summary")
    turns = models.PositiveIntegerField()
    text = models.TextField()
    model = models.CharField(max_length=200)
    is_used = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["turns", "pk"]
        verbose_name_plural = _("summaries")

    def __str__(self) -> str:
        return f"summary of {self.turns} turns"

    @cached_property
    def is_replaced(self) -> bool:
        """Whether another summary that covers more counts instead, used or not. Pages set it for
        all their summaries at once."""
        return self != Summary.find_widest(self.conversation_id)

    @classmethod
    def find_widest(cls, conversation_id: uuid.UUID) -> Self | None:
        """Return the summary that counts on the branch that is shown."""
        shown = cls.objects.filter(part__message__is_shown=True)
        return shown.filter(conversation_id=conversation_id).last()

    @classmethod
    def of(cls, person: Member, summary_id: int) -> Self:
        """Return a summary in a conversation of this person, or raise 404."""
        found = (
            cls.objects.select_related("part", "conversation")
            .filter(pk=summary_id, conversation__owner=person)
            .first()
        )
        if found is None:
            raise Http404("No such summary.")
        return found
