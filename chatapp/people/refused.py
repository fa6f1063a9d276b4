"""The exception for everything that a person asks for and does not get."""

import time

MIN_READING_SECONDS = 0.4
CHANGED = "What would run has changed since this was shown. Look at it again."


class Refused(Exception):
    """The request was refused and changed nothing.

    `sentence` tells people why and what to do. `status` is the HTTP status of the answer.
    """

    def __init__(self, sentence: str, status: int = 422) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


def refuse_haste(shown_at: float | None) -> None:
    """Refuse a decision that came before a person can have read the card. `shown_at` is the Unix
    time at which the card was rendered, None without a card."""
    if shown_at is not None and time.time() - shown_at < MIN_READING_SECONDS:
        raise Refused("That was too quick to have been read. Look again, then decide.", 409)
