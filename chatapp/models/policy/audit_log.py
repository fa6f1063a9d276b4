"""The log: who allowed what, and what came of it. Rows are added and never touched again.

Ids and names stand here as values, not as references: what was written stays true of people, chats
and services that are gone.
"""

from collections.abc import Iterable
from typing import Any, NoReturn

from django.db import models


class AppendOnly(TypeError):
    """Somebody tried to change what is in the log."""


def _refuse() -> NoReturn:
    raise AppendOnly("What is in the log stays there, as it is.")


class Entries(models.QuerySet["LogEntry"]):
    def update(self, **kwargs: Any) -> NoReturn:
        _refuse()

    def delete(self) -> NoReturn:
        _refuse()

    def bulk_update(self, objs: Iterable[Any], fields: Any, batch_size: Any = None) -> NoReturn:
        _refuse()


class LogEntry(models.Model):
    """One thing that happened. `hash` binds it to all before it (`turns.chain`).

    `actor` is who did it, empty where the server did; `person` is whose matter it is. `data` is
    canonical JSON (RFC 8785) as text, because a database might write its numbers in another way.
    The database refuses changes as well: triggers that a migration made.
    """

    class Kind(models.TextChoices):
        DECIDED = "call.decided", "policy decided"
        SENT = "call.sent", "sent"
        ENDED = "call.ended", "outcome"
        RESOLVED = "call.resolved", "unknown outcome settled"
        SIGNED = "approval.signed", "signed, waits for a second signature"
        GRANTED = "approval.granted", "allowed"
        VALUES_CHANGED = "approval.changed", "allowed with other values"
        DENIED = "approval.denied", "denied"
        EXPIRED = "approval.expired", "approval expired"
        WITHDRAWN = "approval.withdrawn", "approval withdrawn"
        REVIEW_GIVEN = "review.given", "result given to the assistant"
        REVIEW_HELD_BACK = "review.held_back", "result held back"
        REVIEW_EXPIRED = "review.expired", "result held back: nobody decided"
        REVIEW_WITHDRAWN = "review.withdrawn", "result held back: the answer ended"
        ANSWERED = "question.answered", "question answered"
        CONSENT_GIVEN = "consent.given", "consent given"
        CONSENT_USED = "consent.used", "consent used for the first time"
        CONSENT_REVOKED = "consent.revoked", "consent revoked"
        CONSENT_LAPSED = "consent.lapsed", "consent lapsed"
        POLICY = "policy.changed", "policy changed"
        TOOL = "tool.changed", "tool settings changed"
        SERVICE = "service.changed", "service changed"
        MODELS = "model.changed", "models or allowances changed"
        MEMBER = "member.changed", "member's rights changed"
        MODE = "chat.mode", "chat switched between planning and acting"
        MEMORY = "memory.changed", "what is remembered changed"
        SIGNED_IN = "member.signed_in", "signed in"
        SIGNED_OUT = "member.signed_out", "signed out"
        CONNECTED = "service.connected", "signed in to a service"
        DISCONNECTED = "service.disconnected", "sign-in to a service ended"
        TOKEN_MADE = "token.made", "access token made"
        TOKEN_REVOKED = "token.revoked", "access token revoked"
        TRIAL_SENT = "trial.sent", "tool tried out"
        TRIAL_ENDED = "trial.ended", "outcome of a try"

    position = models.PositiveBigIntegerField(primary_key=True)
    at = models.DateTimeField(help_text="The database's clock.")
    kind = models.CharField(max_length=40, choices=Kind.choices, db_index=True)
    actor_id = models.BigIntegerField(null=True, db_index=True)
    actor_name = models.CharField("by", max_length=150, blank=True)
    person_id = models.BigIntegerField(null=True, db_index=True)
    person_name = models.CharField("of", max_length=150, blank=True)
    conversation_id = models.UUIDField("chat", null=True, db_index=True)
    turn_id = models.UUIDField("turn", null=True)
    call_id = models.UUIDField("tool call", null=True)
    data = models.TextField(default="{}")
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    objects = Entries.as_manager()

    class Meta:
        verbose_name = "log entry"
        verbose_name_plural = "log"
        ordering = ["position"]

    def __str__(self) -> str:
        return f"Entry {self.position}: {self.get_kind_display()}"

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse()

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse()


class LogHead(models.Model):
    """Where the log ends: one row, locked by whoever adds to it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    position = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.position}:{self.hash}"
