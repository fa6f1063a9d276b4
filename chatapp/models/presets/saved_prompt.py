"""Saved prompts: texts that people put into their messages again."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .sharing import SharedRow

TITLE_CHARACTERS = 80
PROMPT_CHARACTERS = 8_000
PROMPTS_PER_PERSON = 200


class SavedPrompt(SharedRow):
    """A text with a title. It is only ever put into the message box, and never sent by itself."""

    title = models.CharField(_("title"), max_length=TITLE_CHARACTERS)
    text = models.TextField(_("text"), max_length=PROMPT_CHARACTERS)

    class Meta:
        verbose_name = _("saved prompt")
        verbose_name_plural = _("saved prompts")
        ordering = ["title", "pk"]
        indexes = [models.Index(fields=["audience", "group"], name="shared_prompts")]

    def __str__(self) -> str:
        return self.title
