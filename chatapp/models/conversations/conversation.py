"""Conversations: a tree of messages, each a list of typed parts."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import models
from django.http import Http404
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatapp.models.people.member import Member
from chatapp.server.compiled_queries import compiled

# How long a deleted chat can be restored.
RESTORABLE = timedelta(days=7)
# How long a temporary chat is kept after it was last active.
TEMPORARY_KEPT = timedelta(hours=24)
MAX_INSTRUCTIONS_CHARACTERS = 8_000


class Conversation(models.Model):
    """One chat of one person. A deleted chat exists until `RESTORABLE` is over.

    A title is a draft until a model or the person has given the chat another one.
    `last_seq` numbers the journal and the frames of every tab. A chat in plan mode offers and runs
    only tools that read. `effort` is how much the model reasons; empty leaves that to the model's
    settings. `temperature` and `output_tokens`, the most tokens of an answer, are None to leave
    them to the model's settings, which are also the highest that count. `instructions` are what the
    person tells the assistant in this chat only. `token` is
    the access token of the program that began it, and `assistant` is what its person began it with.
    A chat in a `project` uses its instructions and files while its person is a member.
    `branched_seq` is the latest frame that brought another branch of the chat, 0 while it has only
    one. `forked_from` is the answer in another chat up to which a fork has copies, and `tainted_by`
    names the service whose untrusted content is in them. The whole past of a shared copy and of an
    imported chat is untrusted (`is_shared_copy`): others wrote it. `imported_from` is the program
    that the chat was imported from. `read_at` is the `active_at` that its person has seen, None
    if they have never opened it. A temporary chat is in no list and no search, and a task removes
    it `TEMPORARY_KEPT` after it was last active.
    """

    class Mode(models.TextChoices):
        ACT = "act", _("Act mode")
        PLAN = "plan", _("Plan mode")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        on_delete=models.CASCADE,
        related_name="conversations",
    )
    title = models.CharField(_("title"), max_length=80, blank=True)
    title_is_draft = models.BooleanField(_("title is a draft"), default=False, db_default=False)
    model = models.CharField(_("model"), max_length=200, blank=True)
    mode = models.CharField(_("mode"), max_length=4, choices=Mode.choices, default=Mode.ACT)
    uses_tools = models.BooleanField(_("uses tools"), default=True, db_default=True)
    effort = models.CharField(_("effort"), max_length=6, blank=True, default="", db_default="")
    temperature = models.FloatField(_("temperature"), null=True)
    output_tokens = models.PositiveIntegerField(_("longest answer (tokens)"), null=True)
    instructions = models.TextField(
        _("instructions"),
        max_length=MAX_INSTRUCTIONS_CHARACTERS,
        blank=True,
        default="",
        db_default="",
    )
    token = models.ForeignKey(
        "chatapp.AccessToken",
        verbose_name=_("access token"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="conversations",
    )
    assistant = models.ForeignKey(
        "chatapp.Assistant",
        verbose_name=_("assistant"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="conversations",
    )
    project = models.ForeignKey(
        "chatapp.Project",
        verbose_name=_("project"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="conversations",
    )
    # Not a foreign key: the fork stays when the other chat is deleted.
    forked_from = models.UUIDField(_("forked from"), null=True)
    tainted_by = models.CharField(
        _("untrusted content from"), max_length=100, blank=True, default="", db_default=""
    )
    # When an admin last gave a reason to read it. Its page then says so.
    opened_by_admin_at = models.DateTimeField(_("opened by an admin at"), null=True)
    is_shared_copy = models.BooleanField(_("is a shared copy"), default=False, db_default=False)
    imported_from = models.CharField(
        _("imported from"), max_length=20, blank=True, default="", db_default=""
    )
    last_seq = models.PositiveBigIntegerField(_("last seq"), default=0)
    branched_seq = models.PositiveBigIntegerField(_("branched seq"), default=0, db_default=0)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    active_at = models.DateTimeField(_("last active"), auto_now_add=True)
    read_at = models.DateTimeField(_("read at"), null=True)
    is_temporary = models.BooleanField(_("is temporary"), default=False, db_default=False)
    pinned_at = models.DateTimeField(_("pinned at"), null=True)
    archived_at = models.DateTimeField(_("archived at"), null=True)
    deleted_at = models.DateTimeField(_("deleted at"), null=True, db_index=True)

    class Meta:
        verbose_name = _("chat")
        verbose_name_plural = _("chats")
        indexes = [
            models.Index(fields=["owner", "-active_at"]),
            # Programs may begin thousands of chats; this index finds the few of the person among
            # them.
            models.Index(
                fields=["owner", "-active_at"],
                condition=models.Q(token=None),
                name="chats_that_people_began",
            ),
            models.Index(
                fields=["active_at"],
                condition=models.Q(is_temporary=True),
                name="temporary_chats",
            ),
            # The admin lists the chats of all members.
            models.Index(fields=["active_at"], name="chats_by_activity"),
            models.Index(fields=["created_at"], name="chats_by_date"),
        ]

    def __str__(self) -> str:
        return self.title or gettext("New chat")

    @property
    def has_news(self) -> bool:
        """Whether it went on since its person saw it last."""
        return self.read_at is not None and self.active_at > self.read_at

    @property
    def has_copies(self) -> bool:
        """Whether it begins with messages of another chat or program. They have no turns; such a
        question has one when it was answered again."""
        return self.forked_from is not None or bool(self.imported_from)

    @classmethod
    def filter_owned(cls, person: Member) -> "models.QuerySet[Conversation]":
        """Return the chats of this person that are not deleted."""
        return cls.objects.filter(owner=person, deleted_at=None)

    @classmethod
    def filter_listed(cls, person: Member) -> "models.QuerySet[Conversation]":
        """Return those of them that lists and searches have: all but the temporary ones."""
        return cls.filter_owned(person).filter(is_temporary=False)

    @classmethod
    def of(cls, person: Member, conversation_id: uuid.UUID) -> "Conversation":
        """Return this person's conversation, or raise 404, also if it is deleted. Every view that
        gets an id from a browser reads it so, or as `open_conversation` does."""
        found = _find_owned.first(person.pk, conversation_id)
        if found is None:
            raise Http404("No such conversation.")
        found.owner = person
        return found


@compiled
def _find_owned(person_id: int, conversation_id: uuid.UUID) -> models.QuerySet[Conversation]:
    """Select a chat, and its draft: most chats have none, and none need then be deleted."""
    owned = Conversation.objects.filter(owner=person_id, pk=conversation_id, deleted_at=None)
    return owned.select_related("message_draft")


class Message(models.Model):
    """A message of one side. An assistant's message holds all steps of one turn, and stays open
    until the turn ends.

    Messages with the same parent are versions of each other. Pages show one branch of the tree:
    the messages with `is_shown`. `client_id` comes from the page, so that a message that is sent
    twice is accepted once. `created_seq` and `touched_seq` are the frames that created it and last
    changed it.
    """

    class Role(models.TextChoices):
        USER = "user", _("user")
        ASSISTANT = "assistant", _("assistant")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation,
        verbose_name=_("chat"),
        on_delete=models.CASCADE,
        related_name="messages",
    )
    parent = models.ForeignKey(
        "self",
        verbose_name=_("parent"),
        on_delete=models.CASCADE,
        null=True,
        related_name="children",
    )
    role = models.CharField(_("role"), max_length=10, choices=Role.choices)
    is_shown = models.BooleanField(_("is shown"), default=True, db_default=True)
    client_id = models.UUIDField(_("client id"), null=True, unique=True)
    created_seq = models.PositiveBigIntegerField(_("created seq"), default=0)
    touched_seq = models.PositiveBigIntegerField(_("touched seq"), default=0)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        indexes = [models.Index(fields=["conversation", "created_at"])]

    def __str__(self) -> str:
        return f"{self.role} message {self.pk}"


class Part(models.Model):
    """One typed piece of a message, in the order in which pages show it.

    `step` is the model call that produced it (0 for a person's message). A page shows the calls of
    a step after its text; `place` is the number of parts that the model had begun before it asked
    for this one. `opaque` is provider data that must be sent back unchanged, as {"provider": …,
    "data": …}. `sources` are the pages that the provider says the answer cites, as objects with
    `url` and `title`. `copied_call` is a call of the chat that this one was forked from
    (`CopiedCall`).
    """

    class Kind(models.TextChoices):
        TEXT = "text", _("text")
        REASONING = "reasoning", _("reasoning")
        TOOL_CALL = "tool_call", _("tool call")
        NOTICE = "notice", _("notice")
        FILE = "file", _("file")
        SOURCES = "sources", _("sources")
        COPIED_CALL = "copied_call", _("copied tool call")

    class NoticeKind(models.TextChoices):
        INFO = "info", _("info")
        STOPPED = "stopped", _("stopped")
        ERROR = "error", _("error")
        SIGN_IN = "sign_in", _("sign in")
        SUMMARY = "summary", _("summary")

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="parts")
    step = models.PositiveIntegerField(default=0)
    position = models.PositiveIntegerField()
    place = models.PositiveIntegerField(null=True)
    kind = models.CharField(max_length=12, choices=Kind.choices)
    notice_kind = models.CharField(max_length=7, choices=NoticeKind.choices, blank=True)
    text = models.TextField(blank=True)
    hint = models.CharField(max_length=500, blank=True, help_text=_("What to do about the notice."))
    tool_call = models.OneToOneField(
        "chatapp.ToolCall", on_delete=models.CASCADE, null=True, related_name="part"
    )
    seconds = models.FloatField(null=True)
    opaque = models.JSONField(null=True)
    sources = models.JSONField(null=True)
    copied_call = models.JSONField(null=True)

    class Meta:
        ordering = ["step", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["message", "step", "position"], name="one_part_at_a_position"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} part {self.step}.{self.position}"
