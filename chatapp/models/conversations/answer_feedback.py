"""What a person thinks of an answer."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .conversation import Message

FEEDBACK_CHARACTERS = 500


class AnswerFeedback(models.Model):
    """The rating of an answer by the owner of its chat, with a comment that admins can read.

    It belongs to one version of the answer. `model` is the model that answered.
    """

    message = models.OneToOneField(
        Message, verbose_name=_("answer"), on_delete=models.CASCADE, related_name="feedback"
    )
    is_good = models.BooleanField(
        _("rating"), choices=[(True, _("Good answer")), (False, _("Bad answer"))]
    )
    comment = models.CharField(_("comment"), max_length=FEEDBACK_CHARACTERS, blank=True)
    model = models.CharField(_("model"), max_length=200)
    saved_at = models.DateTimeField(_("saved at"), auto_now=True, db_index=True)

    class Meta:
        verbose_name = _("feedback entry")
        verbose_name_plural = _("feedback")

    def __str__(self) -> str:
        return str(self.get_is_good_display())
