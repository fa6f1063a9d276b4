"""The exception for everything that a person asks for and does not get."""

import time
from typing import TYPE_CHECKING

from django.http import HttpResponse
from django.utils.translation import gettext_lazy

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MIN_READING_SECONDS = 0.4
TOO_QUICK = gettext_lazy("You answered before you could read this. Review it, then decide.")
CHANGED = gettext_lazy("This request changed after you opened it. Review it again.")


class Refused(Exception):
    """The request was refused and changed nothing.

    `sentence` tells people why and what to do; `sentences` are its parts, one for each reason.
    `status` is the HTTP status of the answer, and `wait_seconds` says when the request may be
    repeated, where that is known.
    """

    def __init__(self, sentence: "StrOrPromise", status: int = 422, wait_seconds: int = 0) -> None:
        self.sentence = str(sentence)
        self.sentences = [self.sentence]
        super().__init__(self.sentence)
        self.status = status
        self.wait_seconds = wait_seconds

    def set_retry(self, answer: HttpResponse) -> HttpResponse:
        """Say in the headers of the answer when the request may be repeated."""
        if self.wait_seconds:
            answer["Retry-After"] = str(self.wait_seconds)
        return answer


def refuse_haste(shown_at: float | None) -> None:
    """Refuse a decision that came before a person can have read the card. `shown_at` is the Unix
    time at which the card was rendered, None without a card."""
    if shown_at is not None and time.time() - shown_at < MIN_READING_SECONDS:
        raise Refused(TOO_QUICK, 409)
