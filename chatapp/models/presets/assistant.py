"""Assistants: saved ways to start a chat, with their pictures."""

from typing import Any

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from chatapp.models.conversations.conversation import MAX_INSTRUCTIONS_CHARACTERS, Conversation
from mcpconfig.models import Service
from mcpconfig.models.service import Colour

from .sharing import SharedRow
from .start_version import hash_start

NAME_CHARACTERS = 80
DESCRIPTION_CHARACTERS = 200
STARTER_CHARACTERS = 500
MAX_STARTERS = 6
ASSISTANTS_PER_PERSON = 100


class Assistant(SharedRow):
    """What a new chat begins with. A chat keeps what it began with: later changes do not reach it.

    Without a `model`, people use their own choice. `services` counts only if `limits_services` is
    on; the other services of a person are then switched off in the chat. An assistant gives nobody
    access to a model or a service. `picture_hash` is that of its `AssistantPicture`, and empty
    without one.
    """

    name = models.CharField(_("name"), max_length=NAME_CHARACTERS)
    description = models.CharField(_("description"), max_length=DESCRIPTION_CHARACTERS, blank=True)
    model = models.CharField(_("model"), max_length=200, blank=True)
    effort = models.CharField(_("effort"), max_length=6, blank=True)
    temperature = models.FloatField(_("temperature"), null=True, blank=True)
    output_tokens = models.PositiveIntegerField(_("longest answer (tokens)"), null=True, blank=True)
    mode = models.CharField(
        _("mode"),
        max_length=4,
        choices=Conversation.Mode.choices,
        default=Conversation.Mode.ACT,
    )
    uses_tools = models.BooleanField(_("uses tools"), default=True)
    limits_services = models.BooleanField(_("limits services"), default=False)
    services = models.ManyToManyField(
        Service, verbose_name=_("services"), blank=True, related_name="assistants"
    )
    instructions = models.TextField(
        _("instructions"), max_length=MAX_INSTRUCTIONS_CHARACTERS, blank=True
    )
    starters = models.JSONField(_("starters"), default=list, blank=True)
    picture_hash = models.CharField(max_length=32, blank=True, default="", db_default="")

    class Meta:
        verbose_name = _("assistant")
        verbose_name_plural = _("assistants")
        ordering = ["name", "pk"]
        indexes = [models.Index(fields=["audience", "group"], name="shared_assistants")]

    def __str__(self) -> str:
        return self.name

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        # Locked as by the start of a chat, so that none is being started with it meanwhile.
        with transaction.atomic():
            Assistant.objects.select_for_update().filter(pk=self.pk).first()
            return super().delete(*args, **kwargs)

    @property
    def initials(self) -> str:
        words = self.name.split() or ["?"]
        return "".join(word[0] for word in words[:2]).upper()

    @property
    def colour(self) -> str:
        """The colour behind the initials."""
        return Colour.choose(self.pk)

    @property
    def version(self) -> str:
        """A hash of what a chat gets from it, so that nobody starts a chat with instructions that
        they were not shown."""
        services = self.services if self.limits_services else None
        return hash_start(self.instructions, services, self.temperature, self.output_tokens)


class AssistantPicture(models.Model):
    """The picture of an assistant, in a row of its own so that queries do not load it by accident.

    `data` is what `files.reader.make_square_picture` made, and never what was uploaded.
    """

    assistant = models.OneToOneField(
        Assistant, on_delete=models.CASCADE, primary_key=True, related_name="picture"
    )
    data = models.BinaryField()

    class Meta:
        verbose_name = _("picture")
        verbose_name_plural = _("pictures")

    def __str__(self) -> str:
        return str(self.assistant)
