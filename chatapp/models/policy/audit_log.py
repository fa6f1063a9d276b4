"""The audit log: who did, decided or changed what, and the outcomes. Rows are only added.

Ids and names are stored as values, not as references, so that entries stay complete after people,
chats and services are deleted.
"""

from collections.abc import Iterable
from typing import Any, NoReturn

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _


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
        DECIDED = "call.decided", _("decided by policy")
        SENT = "call.sent", _("call sent")
        ENDED = "call.ended", _("call outcome")
        RESOLVED = "call.resolved", _("unknown outcome resolved")
        SIGNED = "approval.signed", _("approved, waiting for a second approval")
        GRANTED = "approval.granted", _("approved")
        VALUES_CHANGED = "approval.changed", _("approved with edited values")
        DENIED = "approval.denied", _("denied")
        EXPIRED = "approval.expired", _("approval expired")
        WITHDRAWN = "approval.withdrawn", _("approval withdrawn")
        REVIEW_GIVEN = "review.given", _("result shared with the assistant")
        REVIEW_HELD_BACK = "review.held_back", _("result withheld")
        REVIEW_EXPIRED = "review.expired", _("result withheld: no one decided")
        REVIEW_WITHDRAWN = (
            "review.withdrawn",
            _("result withheld: the answer ended before anyone decided"),
        )
        ANSWERED = "question.answered", _("question answered")
        ATTENTION_CHECK = "approval.check", _("attention check, not a real request")
        CONSENT_GIVEN = "consent.given", _("permission given")
        CONSENT_USED = "consent.used", _("permission used for the first time")
        CONSENT_REVOKED = "consent.revoked", _("permission revoked")
        CONSENT_LAPSED = "consent.lapsed", _("permission expired")
        POLICY = "policy.changed", _("policy change")
        CHANGE_DRAFTED = "policy_change.drafted", _("draft of a policy change")
        CHANGE_SUBMITTED = "policy_change.submitted", _("policy change sent for approval")
        CHANGE_APPROVED = "policy_change.approved", _("policy change approved")
        CHANGE_REJECTED = "policy_change.rejected", _("policy change rejected")
        CHANGE_REOPENED = "policy_change.reopened", _("policy change made a draft again")
        CHANGE_APPLIED = "policy_change.applied", _("policy change applied")
        CHANGE_UNDONE = "policy_change.undone", _("policy change undone")
        CHANGE_DISCARDED = "policy_change.discarded", _("policy change discarded")
        TOOL = "tool.changed", _("tool settings change")
        SERVICE = "service.changed", _("service change")
        SERVICE_CHECKED = "service.checked", _("service checked")
        MODELS = "model.changed", _("model or allowance change")
        MEMBER = "member.changed", _("member or group change")
        MODE = "chat.mode", _("plan mode switched on or off")
        PARAMETERS = "parameters.changed", _("temperature or length of answers changed")
        CHAT_OPENED = "chat.opened", _("chat opened in the admin")
        CHAT_DELETED = "chat.deleted", _("chat deleted")
        CHAT_RESTORED = "chat.restored", _("chat restored")
        CHAT_REMOVED = "chat.removed", _("deleted chat removed permanently")
        CHATS_IMPORTED = "chats.imported", _("chats imported")
        IMPORT_UNDONE = "chats.import_undone", _("import of chats undone")
        SHARE_MADE = "share.made", _("chat shared by a link")
        SHARE_UPDATED = "share.updated", _("shared link updated")
        SHARE_OPENED = "share.opened", _("shared link opened for the first time")
        SHARE_REVOKED = "share.revoked", _("shared link revoked")
        PROJECT = "project.changed", _("project change")
        NOTIFICATIONS = "notifications.changed", _("change of notifications")
        MEMORY = "memory.changed", _("memory changed")
        SIGNED_IN = "member.signed_in", _("signed in")
        SIGNED_OUT = "member.signed_out", _("signed out")
        SIGN_IN_REFUSED = "member.sign_in_refused", _("sign-in by a provider refused")
        PROVIDER_ADDED = "member.provider_added", _("sign-in provider connected")
        PROVIDER_REMOVED = "member.provider_removed", _("sign-in provider disconnected")
        FACTOR_ADDED = "member.factor_added", _("second factor added")
        FACTOR_REMOVED = "member.factor_removed", _("second factor removed")
        FACTOR_RESET = "member.factor_reset", _("recovery codes created")
        FACTOR_FAILED = "member.factor_failed", _("wrong code at sign-in")
        SESSIONS_ENDED = "member.sessions_ended", _("sessions ended")
        DATA_EXPORTED = "member.data_exported", _("own data downloaded")
        ACCOUNT_CLOSED = "member.account_closed", _("account deleted by its member")
        SECRETS_ROTATED = "secrets.rotated", _("stored secrets encrypted with the newest key")
        OFF_BOARDED = "member.off_boarded", _("member off-boarded")
        INVITED = "member.invited", _("invitation created, accepted or revoked")
        CHAT_HANDED_OVER = "chat.handed_over", _("chat handed over")
        CONNECTED = "service.connected", _("signed in to a service")
        DISCONNECTED = "service.disconnected", _("sign-in to a service ended")
        TOKEN_MADE = "token.made", _("access token created")
        TOKEN_REVOKED = "token.revoked", _("access token revoked")
        TRIAL_SENT = "trial.sent", _("trial started")
        TRIAL_ENDED = "trial.ended", _("outcome of a trial")
        VALUES_COPIED = "trial.values_copied", _("values of a call copied to try the tool")
        MODEL_TESTED = "model.tested", _("model tested")
        MODELS_CHECKED = "model.checked", _("model provider checked")
        NOTIFICATIONS_TESTED = "notifications.tested", _("test message sent")
        DOWNLOADED = "admin.downloaded", _("file downloaded in the admin")
        PRESET_DELETED = "preset.deleted", _("assistant or saved prompt deleted in the admin")
        NEED_HIDDEN = "overview.hidden", _("item of the overview hidden")

    position = models.PositiveBigIntegerField(_("position"), primary_key=True)
    at = models.DateTimeField(_("time"), help_text=_("Time of the database server."))
    kind = models.CharField(_("kind"), max_length=40, choices=Kind.choices, db_index=True)
    actor_id = models.BigIntegerField(_("actor ID"), null=True, db_index=True)
    actor_name = models.CharField(_("actor"), max_length=150, blank=True)
    person_id = models.BigIntegerField(_("member ID"), null=True, db_index=True)
    person_name = models.CharField(_("member"), max_length=150, blank=True)
    conversation_id = models.UUIDField(_("chat"), null=True, db_index=True)
    turn_id = models.UUIDField(_("turn"), null=True)
    call_id = models.UUIDField(_("tool call"), null=True)
    data = models.TextField(_("data"), default="{}")
    previous = models.CharField(_("previous hash"), max_length=64)
    hash = models.CharField(_("hash"), max_length=64)

    objects = Entries.as_manager()

    class Meta:
        verbose_name = _("log entry")
        verbose_name_plural = _("activity log")
        ordering = ["position"]
        indexes = [models.Index(fields=["at"], name="log_by_date")]

    def __str__(self) -> str:
        return gettext("Entry %(position)s: %(kind)s") % {
            "position": self.position,
            "kind": self.get_kind_display(),
        }

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
