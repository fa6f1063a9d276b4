"""Tool calls: the life of one call, its approval and the permit under which it runs."""

import uuid
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.http import Http404
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatapp.models.people.member import Member
from chatapp.models.turns.turn import Turn
from mcpconfig.models import Service, ToolDefinition


class ToolCall(models.Model):
    """One request by the model to use a tool; also the ledger that says whether it was sent.

    `arguments` is the canonical JSON (RFC 8785) that is shown, hashed and sent. `sending` is
    committed before the first byte leaves, so the outcome of a row that is still `sending` after
    its worker died is unknown.
    """

    class State(models.TextChoices):
        PROPOSED = "proposed", _("checking")
        AWAITING_APPROVAL = "awaiting_approval", _("waiting for approval")
        AWAITING_INPUT = "awaiting_input", _("waiting for your answer")
        AWAITING_SIGN_IN = "awaiting_sign_in", _("waiting for sign-in")
        AWAITING_TASK = "awaiting_task", _("running")
        APPROVED = "approved", _("running")
        SENDING = "sending", _("running")
        SUCCEEDED = "succeeded", _("done")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("outcome unknown")
        DENIED = "denied", _("denied")
        REFUSED = "refused", _("refused by policy")
        EXPIRED = "expired", _("expired")
        WITHDRAWN = "withdrawn", _("withdrawn")
        CANCELLED = "cancelled", _("cancelled")

    FINAL = (
        State.SUCCEEDED,
        State.FAILED,
        State.DENIED,
        State.REFUSED,
        State.EXPIRED,
        State.WITHDRAWN,
        State.CANCELLED,
    )

    # Sent, not over, and not held by a worker: somebody else has to act first.
    PAUSED = (State.AWAITING_INPUT, State.AWAITING_SIGN_IN, State.AWAITING_TASK)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    turn = models.ForeignKey(
        Turn, verbose_name=_("turn"), on_delete=models.CASCADE, related_name="tool_calls"
    )
    step = models.PositiveIntegerField(_("step"))
    position = models.PositiveIntegerField(_("position"))
    provider_call_id = models.CharField(_("provider call id"), max_length=200)
    tool_id = models.CharField(_("tool"), max_length=128)
    service = models.ForeignKey(
        Service, verbose_name=_("service"), on_delete=models.SET_NULL, null=True
    )
    tool_name = models.CharField(_("tool name"), max_length=255, blank=True)
    definition = models.ForeignKey(
        ToolDefinition, verbose_name=_("definition"), on_delete=models.SET_NULL, null=True
    )
    arguments = models.TextField(_("arguments"))
    state = models.CharField(
        _("state"), max_length=17, choices=State.choices, default=State.PROPOSED
    )
    risk = models.CharField(_("risk"), max_length=6, blank=True)
    reasons = models.JSONField(_("reasons"), default=list)
    why = models.CharField(
        _("reason"), max_length=500, blank=True, help_text=_("The reason for the decision.")
    )
    note = models.CharField(
        _("note"), max_length=500, blank=True, help_text=_("A note from an admin.")
    )
    rule = models.ForeignKey(
        "chatapp.PolicyRule",
        verbose_name=_("rule"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    consent = models.ForeignKey(
        "chatapp.Consent",
        verbose_name=_("consent"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="calls",
    )
    binding = models.CharField(
        _("binding"), max_length=64, blank=True, help_text=_("The hash of what was decided on.")
    )
    asked_arguments = models.TextField(
        _("original arguments"),
        blank=True,
        help_text=_("The model’s original arguments, if a member edited them."),
    )
    attempt = models.PositiveIntegerField(_("attempt"), default=0)
    pauses = models.PositiveIntegerField(
        _("pauses"),
        default=0,
        help_text=_("Attempts that the service paused with a request before it acted."),
    )
    waits_until = models.DateTimeField(_("waits until"), null=True)
    cancel_requested = models.BooleanField(_("cancel requested"), default=False)
    sent_at = models.DateTimeField(_("sent at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)
    progress = models.CharField(_("progress"), max_length=200, blank=True)
    progress_done = models.FloatField(_("progress done"), null=True)
    progress_total = models.FloatField(_("progress total"), null=True)
    result = models.JSONField(_("result"), null=True)
    tainted_by = models.CharField(
        _("untrusted content from"),
        max_length=100,
        blank=True,
        help_text=_("The service whose untrusted content is in the result."),
    )
    error = models.JSONField(_("error"), null=True)
    resolution = models.CharField(_("resolution"), max_length=8, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("resolved by"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    resolved_at = models.DateTimeField(_("resolved at"), null=True)

    class Meta:
        verbose_name = _("tool call")
        verbose_name_plural = _("tool calls")
        ordering = ["step", "position"]
        indexes = [
            # Few calls wait, and each page counts those of its person. SQLite uses the index for
            # states joined by OR, and not for a list.
            models.Index(
                fields=["state"],
                condition=models.Q(state="awaiting_approval")
                | models.Q(state="awaiting_input")
                | models.Q(state="awaiting_sign_in")
                | models.Q(state="awaiting_task")
                | models.Q(state="unknown"),
                name="calls_that_wait",
            ),
            # Most calls succeed; admins list the others.
            models.Index(
                fields=["state"],
                condition=~models.Q(state="succeeded"),
                name="calls_not_succeeded",
            ),
            # When each tool of a service was last used, and the use of the last days.
            models.Index(fields=["service", "tool_name", "sent_at"], name="calls_of_a_service"),
            models.Index(fields=["definition", "sent_at"], name="calls_of_a_definition"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["turn", "step", "position"], name="one_call_at_a_position"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool_id} ({self.state})"

    @classmethod
    def of(cls, person: Member, call_id: uuid.UUID) -> Self:
        """Return a tool call in a conversation of this person, or raise 404, also if the
        conversation is deleted."""
        found = (
            cls.objects.select_related("turn__conversation", "service", "definition", "approval")
            .filter(pk=call_id, turn__conversation__owner=person)
            .filter(turn__conversation__deleted_at=None)
            .first()
        )
        if found is None:
            raise Http404("No such tool call.")
        return found

    @property
    def is_core(self) -> bool:
        """Whether it is a call of a core tool: the id of a service's tool has an underscore, and
        an unknown tool has no name."""
        return self.service_id is None and bool(self.tool_name) and "_" not in self.tool_id

    @property
    def may_have_run(self) -> bool:
        """Whether it was sent at least once without a definite outcome."""
        return self.attempt > self.pauses

    @property
    def seconds(self) -> float | None:
        """How long the tool took."""
        if self.sent_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.sent_at).total_seconds()

    @property
    def content(self) -> list[dict[str, Any]]:
        """The result's content blocks, as in the protocol."""
        return list((self.result or {}).get("content", []))


# A value longer than this has to be opened and read before a card allows its call.
READ_CHARACTERS = 2_000


class Approval(models.Model):
    """The open question to a person about one call. Its id is the call's.

    `binding` is the hash of everything that is shown; a decision names it, and the call runs only
    while it still holds. `is_once_only`: the question is about this use alone, so no consent
    replaces it. If `second` is set, the requester signs first (`first_by`), and `decided_by` is the
    second signer, who signs with the right of `signed_for`.
    """

    class State(models.TextChoices):
        OPEN = "open", _("waiting for approval")
        GRANTED = "granted", _("approved")
        DENIED = "denied", _("denied")
        EXPIRED = "expired", _("expired")
        WITHDRAWN = "withdrawn", _("withdrawn")

    tool_call = models.OneToOneField(
        ToolCall,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="approval",
        verbose_name=_("tool call"),
    )
    binding = models.CharField(_("binding"), max_length=64)
    state = models.CharField(_("state"), max_length=9, choices=State.choices, default=State.OPEN)
    reason = models.CharField(
        _("reason"), max_length=2000, blank=True, help_text=_("A message to the assistant.")
    )
    wants_typing = models.BooleanField(_("typed confirmation"), default=False)
    is_once_only = models.BooleanField(_("once only"), default=False)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("decided by"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    decided_at = models.DateTimeField(_("decided at"), null=True)
    second = models.ForeignKey(
        "chatapp.SecondSignature",
        verbose_name=_("second approval"),
        on_delete=models.PROTECT,
        null=True,
    )
    first_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("first approved by"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    first_at = models.DateTimeField(_("first approved at"), null=True)
    # When its requester first saw the card, and when somebody did who may sign second.
    shown_at = models.DateTimeField(_("first shown at"), null=True)
    second_shown_at = models.DateTimeField(_("first shown to a second approver at"), null=True)
    escalates_at = models.DateTimeField(_("escalates at"), null=True)
    signed_for = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("approved on behalf of"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires at"))

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        indexes = [
            models.Index(fields=["state", "expires_at"]),
            models.Index(fields=["created_at"], name="approvals_by_date"),
        ]

    def __str__(self) -> str:
        return gettext("approval of %(call)s (%(state)s)") % {
            "call": self.tool_call_id,
            "state": self.state,
        }

    @property
    def signers(self) -> str:
        """The names of the people who allowed the call."""
        signed = [self.first_by, self.decided_by] if self.second_id else [self.decided_by]
        return " and ".join(map(str, signed))

    @property
    def may_be_batched(self) -> bool:
        """Whether one click may allow it together with others: its risk is known and not high,
        nothing has to be typed or read at length, and nobody else has to sign."""
        is_plain = not self.wants_typing and self.second_id is None
        is_plain = is_plain and len(self.tool_call.arguments) <= READ_CHARACTERS
        return is_plain and self.tool_call.risk in ("low", "medium")

    @property
    def waits_for_second(self) -> bool:
        """Whether its requester has signed and the second signer has not answered yet."""
        return self.state == self.State.OPEN and self.first_at is not None


class Permit(models.Model):
    """The right to execute one call once. The unique pair makes a second permit for an attempt
    impossible."""

    tool_call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="permits")
    attempt = models.PositiveIntegerField()
    binding = models.CharField(max_length=64)
    granted_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tool_call", "attempt"], name="one_permit_an_attempt")
        ]

    def __str__(self) -> str:
        return f"permit {self.attempt} of {self.tool_call_id}"


class RemoteTask(models.Model):
    """The service's task behind one call. No process waits for it: the sweep polls it when
    `next_poll_at` is due, and advances that time first, so that only one process polls.

    `failures` counts failed polls in a row; `is_cancelled`: the service received the request to
    cancel. After `deadline` it is no longer polled.
    """

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="remote_task"
    )
    task_id = models.CharField(max_length=500)
    status = models.CharField(max_length=20, blank=True)
    message = models.CharField(max_length=200, blank=True)
    poll_seconds = models.FloatField()
    next_poll_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0)
    wants_cancel = models.BooleanField(default=False)
    is_cancelled = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["next_poll_at"])]

    def __str__(self) -> str:
        return f"task of {self.tool_call_id} ({self.status})"


class Review(models.Model):
    """The open question whether the assistant may see the result of a call. Its id is the call's.

    `binding` is the hash of what was shown. The assistant sees the result only if a person released
    exactly this one.
    """

    class State(models.TextChoices):
        OPEN = "open", _("the assistant has not seen it yet")
        GIVEN = "given", _("shared with the assistant")
        HELD_BACK = "held_back", _("withheld")
        EXPIRED = "expired", _("withheld: no one decided in time")
        WITHDRAWN = "withdrawn", _("withheld: the answer ended first")

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="review"
    )
    binding = models.CharField(max_length=64)
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    reason = models.CharField(
        max_length=2000, blank=True, help_text=_("A message to the assistant.")
    )
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True)
    shown_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["state", "expires_at"])]

    def __str__(self) -> str:
        return f"review of {self.tool_call_id} ({self.state})"
