"""Tool calls: the life of one call, its approval and the permit under which it runs."""

import uuid
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.http import Http404

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
        PROPOSED = "proposed", "deciding"
        AWAITING_APPROVAL = "awaiting_approval", "waiting for approval"
        AWAITING_INPUT = "awaiting_input", "waiting for your answer"
        AWAITING_SIGN_IN = "awaiting_sign_in", "waiting for sign-in"
        AWAITING_TASK = "awaiting_task", "running"
        APPROVED = "approved", "running"
        SENDING = "sending", "running"
        SUCCEEDED = "succeeded", "done"
        FAILED = "failed", "failed"
        UNKNOWN = "unknown", "outcome unknown"
        DENIED = "denied", "denied"
        REFUSED = "refused", "refused by policy"
        EXPIRED = "expired", "expired"
        WITHDRAWN = "withdrawn", "withdrawn"
        CANCELLED = "cancelled", "cancelled"

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
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="tool_calls")
    step = models.PositiveIntegerField()
    position = models.PositiveIntegerField()
    provider_call_id = models.CharField(max_length=200)
    tool_id = models.CharField(max_length=128)
    service = models.ForeignKey(Service, on_delete=models.SET_NULL, null=True)
    tool_name = models.CharField(max_length=255, blank=True)
    definition = models.ForeignKey(ToolDefinition, on_delete=models.SET_NULL, null=True)
    arguments = models.TextField()
    state = models.CharField(max_length=17, choices=State.choices, default=State.PROPOSED)
    risk = models.CharField(max_length=6, blank=True)
    reasons = models.JSONField(default=list)
    why = models.CharField(max_length=500, blank=True, help_text="The decision's reason.")
    note = models.CharField(max_length=500, blank=True, help_text="An admin's own words on it.")
    rule = models.ForeignKey(
        "chatapp.PolicyRule", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    consent = models.ForeignKey(
        "chatapp.Consent", on_delete=models.SET_NULL, null=True, related_name="calls"
    )
    binding = models.CharField(
        max_length=64, blank=True, help_text="The hash of what was decided about."
    )
    asked_arguments = models.TextField(
        blank=True, help_text="What the model asked for, where a person changed the values."
    )
    attempt = models.PositiveIntegerField(default=0)
    pauses = models.PositiveIntegerField(
        default=0, help_text="Attempts that the service ended with a demand, before it did it."
    )
    waits_until = models.DateTimeField(null=True)
    cancel_requested = models.BooleanField(default=False)
    sent_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    progress = models.CharField(max_length=200, blank=True)
    progress_done = models.FloatField(null=True)
    progress_total = models.FloatField(null=True)
    result = models.JSONField(null=True)
    tainted_by = models.CharField(
        max_length=100,
        blank=True,
        help_text="The service whose words, perhaps of strangers, its result brings.",
    )
    error = models.JSONField(null=True)
    resolution = models.CharField(max_length=8, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
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
            )
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
        """Return a tool call in a conversation of this person, or raise 404."""
        found = (
            cls.objects.select_related("turn__conversation", "service", "definition", "approval")
            .filter(pk=call_id, turn__conversation__owner=person)
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
        OPEN = "open"
        GRANTED = "granted"
        DENIED = "denied"
        EXPIRED = "expired"
        WITHDRAWN = "withdrawn"

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="approval"
    )
    binding = models.CharField(max_length=64)
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    reason = models.CharField(max_length=2000, blank=True, help_text="A word to the assistant.")
    wants_typing = models.BooleanField(default=False)
    is_once_only = models.BooleanField(default=False)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True)
    second = models.ForeignKey("chatapp.SecondSignature", on_delete=models.PROTECT, null=True)
    first_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    first_at = models.DateTimeField(null=True)
    escalates_at = models.DateTimeField(null=True)
    signed_for = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["state", "expires_at"])]

    def __str__(self) -> str:
        return f"approval of {self.tool_call_id} ({self.state})"

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
        OPEN = "open", "the assistant has not seen it yet"
        GIVEN = "given", "given to the assistant"
        HELD_BACK = "held_back", "held back"
        EXPIRED = "expired", "held back: nobody decided in time"
        WITHDRAWN = "withdrawn", "held back: the answer ended first"

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="review"
    )
    binding = models.CharField(max_length=64)
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    reason = models.CharField(max_length=2000, blank=True, help_text="A word to the assistant.")
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["state", "expires_at"])]

    def __str__(self) -> str:
        return f"review of {self.tool_call_id} ({self.state})"
