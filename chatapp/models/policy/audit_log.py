"""The audit log: who allowed what, and its outcome. Rows are only added.

Ids and names are stored as values, not as references, so that entries stay complete after people,
chats and services are deleted.
"""

from collections.abc import Iterable
from typing import Any, NoReturn

from django.db import models


class AppendOnly(TypeError):
    """Code tried to change an entry of the log."""


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
    """One event. `hash` binds it to all earlier entries (`audit.hash_chain`).

    `actor` is who did it, empty if the server did; `person` is whom it concerns. `data` is
    canonical JSON (RFC 8785) as text, because a database might write its numbers in another way.
    Triggers in the database refuse changes as well.
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
        CHAT_OPENED = "chat.opened", "chat opened in the admin"
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
    """The end of the log: one row, locked by each transaction that appends."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    position = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.position}:{self.hash}"
