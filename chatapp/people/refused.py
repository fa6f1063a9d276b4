"""The one way in which something that a person asks for is refused."""

import time

SOONEST_SECONDS = 0.4
CHANGED = "What would run has changed since this was shown. Look at it again."


class Refused(Exception):
    """Not done, and nothing changed. `sentence` says why and what to do, for people.

    `status` is the HTTP status that fits.
    """

    def __init__(self, sentence: str, status: int = 422) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


def refuse_haste(shown_at: float | None) -> None:
    """Refuse what came sooner than a person can read. `shown_at` is when the card was made (Unix
    time), None for what did not come from a card."""
    if shown_at is not None and time.time() - shown_at < SOONEST_SECONDS:
        raise Refused("That was too quick to have been read. Look again, then decide.", 409)
