"""Turns and steps: everything that follows one user message, and one model call of it."""

import uuid

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatapp.models.conversations.conversation import Conversation, Message, Part


class Turn(models.Model):
    """The work for one answer to a user message. The holder of the lease advances it; `fence` rises
    with each lease.

    `signals` rises with each outside event (a decision, Stop), so that a worker that is about to
    wait or finish notices a change. `drops` counts how often in a row the database refused to store
    something of it.
    """

    class State(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        WAITING = "waiting", _("waiting")
        DONE = "done", _("done")
        STOPPED = "stopped", _("stopped")
        FAILED = "failed", _("failed")

    LIVE = (State.QUEUED, State.RUNNING, State.WAITING)
    # Reasons of a turn that is done without the answer that was asked for.
    UNANSWERED = ("refused", "filtered")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation, verbose_name=_("chat"), on_delete=models.CASCADE, related_name="turns"
    )
    question = models.ForeignKey(
        Message, on_delete=models.CASCADE, related_name="turns_asked", verbose_name=_("question")
    )
    answer = models.OneToOneField(
        Message, on_delete=models.CASCADE, related_name="turn_answered", verbose_name=_("answer")
    )
    model = models.CharField(_("model"), max_length=200)
    loaded_tools = models.JSONField(
        _("loaded tools"),
        default=list,
        help_text=_("Ids of the tools that this turn found, in order."),
    )
    services = models.JSONField(
        _("services"), null=True, help_text=_("Names of the services to offer. If null, all.")
    )
    app_of = models.ForeignKey(
        "chatapp.ToolCall",
        verbose_name=_("call with the app"),
        on_delete=models.CASCADE,
        null=True,
        related_name="app_turns",
        help_text=_("The call whose app started this turn without the model."),
    )
    token = models.ForeignKey(
        "chatapp.AccessToken",
        verbose_name=_("access token"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="turns",
        help_text=_("The token of the program that started this turn."),
    )
    idempotency_key = models.CharField(
        _("idempotency key"), max_length=255, blank=True, default="", db_default=""
    )
    request_hash = models.CharField(
        _("request hash"),
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text=_("The hash of the request with this key."),
    )
    said_hash = models.CharField(
        _("said hash"),
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text=_("The hash of the messages that the program sent, to continue from here."),
    )
    delivered_at = models.DateTimeField(
        _("delivered at"), null=True, help_text=_("When the program received the outcome.")
    )
    instructions = models.TextField(
        _("instructions"),
        blank=True,
        default="",
        db_default="",
        help_text=_("Instructions from the program to the assistant."),
    )
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.QUEUED)
    reason = models.CharField(_("reason for ending"), max_length=12, blank=True)
    stop_requested = models.BooleanField(_("stop requested"), default=False)
    signals = models.PositiveIntegerField(_("signals"), default=0)
    fence = models.PositiveIntegerField(_("fence"), default=0)
    drops = models.PositiveSmallIntegerField(_("failed writes in a row"), default=0, db_default=0)
    lease_owner = models.CharField(_("lease owner"), max_length=64, blank=True)
    lease_until = models.DateTimeField(_("lease until"), null=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    started_at = models.DateTimeField(_("started at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)

    class Meta:
        verbose_name = _("turn")
        verbose_name_plural = _("turns")
        indexes = [
            models.Index(fields=["state", "lease_until"]),
            # The admin lists calls by their turns, newest first, and counts them per day.
            models.Index(fields=["created_at"], name="turns_by_date"),
            models.Index(fields=["token", "said_hash", "-created_at"]),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["conversation"],
                condition=models.Q(state__in=["queued", "running", "waiting"]),
                name="one_live_turn_in_a_conversation",
            ),
            models.UniqueConstraint(
                fields=["token", "idempotency_key"],
                condition=~models.Q(idempotency_key=""),
                name="one_turn_of_an_idempotency_key",
            ),
        ]

    def __str__(self) -> str:
        return gettext("turn %(id)s (%(state)s)") % {"id": self.pk, "state": self.state}

    @property
    def is_direct(self) -> bool:
        """Whether it is one call that an app or a program requested, without a model."""
        return self.app_of_id is not None or (self.token_id is not None and not self.model)

    @property
    def is_of_program(self) -> bool:
        """Whether an app or a program requested it, not the person."""
        return self.is_direct or self.token_id is not None

    @property
    def is_live(self) -> bool:
        return self.state in self.LIVE

    @property
    def may_be_tried_again(self) -> bool:
        """Whether it ended without the answer that was asked for."""
        return self.state in (self.State.FAILED, self.State.STOPPED) or self.is_unanswered

    @property
    def is_unanswered(self) -> bool:
        return self.state == self.State.DONE and self.reason in self.UNANSWERED

    @property
    def is_complete(self) -> bool:
        """Whether it is over and its answer is whole."""
        return self.state == self.State.DONE and not self.is_unanswered and not self.may_go_on()

    @property
    def may_be_rated(self) -> bool:
        """Whether it is over and its answer is final. Another attempt replaces one that is not."""
        return self.state == self.State.DONE and not self.is_unanswered and not self.is_direct

    def may_go_on(self, has_text: bool | None = None) -> bool:
        """Whether it was cut short after some text, so that the model can continue. None: it is
        not known whether there is text."""
        if self.state == self.State.FAILED:
            if has_text is not None:
                return has_text
            said = Part.objects.filter(message_id=self.answer_id, kind=Part.Kind.TEXT)
            return said.exclude(text="").exists()
        return self.reason in ("stopped", "length", "budget")

    @property
    def rests(self) -> bool:
        """Whether nothing happens until a person acts."""
        return self.state not in (self.State.QUEUED, self.State.RUNNING)


def is_of_program(turn: Turn | None, conversation: Conversation) -> bool:
    """Return whether a program or an app wrote the question of this turn. A message without a turn
    is a copy in a chat that has them, and elsewhere belongs to the history that a program sent."""
    return turn.is_of_program if turn is not None else not conversation.has_copies


class Step(models.Model):
    """One model call. While it is `calling`, its text is in the journal; afterwards in the parts.

    A worker that died leaves it `calling`; the next worker raises `attempt` and calls the model
    again. `waits_because` is what the page shows while the provider asks for a pause.
    """

    class State(models.TextChoices):
        CALLING = "calling", _("calling")
        DONE = "done", _("done")
        INTERRUPTED = "interrupted", _("interrupted")

    turn = models.ForeignKey(
        Turn, verbose_name=_("turn"), on_delete=models.CASCADE, related_name="steps"
    )
    number = models.PositiveIntegerField(_("step number"))
    attempt = models.PositiveIntegerField(_("attempt"), default=1)
    state = models.CharField(
        _("state"), max_length=11, choices=State.choices, default=State.CALLING
    )
    finish_reason = models.CharField(_("finish reason"), max_length=12, blank=True)
    waits_because = models.CharField(_("waits because"), max_length=1000, blank=True, default="")
    input_tokens = models.PositiveIntegerField(_("input tokens"), default=0)
    cached_tokens = models.PositiveIntegerField(_("cached tokens"), default=0)
    output_tokens = models.PositiveIntegerField(_("output tokens"), default=0)
    reasoning_tokens = models.PositiveIntegerField(_("reasoning tokens"), default=0)
    summary_input_tokens = models.PositiveIntegerField(
        _("summary input tokens"),
        default=0,
        help_text=_(
            "Input tokens to summarise older turns before this call and to title the chat after it."
        ),
    )
    summary_output_tokens = models.PositiveIntegerField(_("summary output tokens"), default=0)
    estimated_tokens = models.PositiveIntegerField(
        _("estimated tokens"),
        default=0,
        help_text=_("The estimate for the input tokens. 0 if there was none."),
    )
    saved_tokens = models.PositiveIntegerField(
        _("saved tokens"), default=0, help_text=_("Estimated tokens of tools that were not sent.")
    )
    cost = models.DecimalField(
        _("cost"),
        max_digits=14,
        decimal_places=8,
        null=True,
        help_text=_("Empty if the model had no price."),
    )
    currency = models.CharField(_("currency"), max_length=3, blank=True, default="")
    started_at = models.DateTimeField(_("started at"), auto_now_add=True)
    first_token_at = models.DateTimeField(_("first token at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["turn", "number"], name="one_step_of_a_number")
        ]

    def __str__(self) -> str:
        return gettext("step %(number)s of %(turn)s") % {
            "number": self.number,
            "turn": self.turn_id,
        }

    @property
    def read_tokens(self) -> int:
        """All tokens that the model read for this step, including summaries."""
        return self.input_tokens + self.summary_input_tokens

    @property
    def written_tokens(self) -> int:
        return self.output_tokens + self.summary_output_tokens


class JournalEvent(models.Model):
    """One event of a live turn, numbered within its conversation; one event is one frame."""

    class Kind(models.TextChoices):
        MESSAGE = "message", _("message")
        TEXT = "text", _("text")
        REASONING = "reasoning", _("reasoning")
        RESTART = "restart", _("restart")
        STEP = "step", _("step")
        TOOL_CALL = "tool_call", _("tool call")
        NOTICE = "notice", _("notice")
        PLAN = "plan", _("plan")
        TURN = "turn", _("turn")
        TITLE = "title", _("title")
        BRANCH = "branch", _("branch")
        QUEUE = "queue", _("queue")
        FEEDBACK = "feedback", _("feedback")

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="journal")
    seq = models.PositiveBigIntegerField()
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, null=True, related_name="journal")
    kind = models.CharField(max_length=9, choices=Kind.choices)
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["seq"]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "seq"], name="one_event_of_a_seq")
        ]

    def __str__(self) -> str:
        return f"{self.kind} event {self.seq}"
