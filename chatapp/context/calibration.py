"""Corrects estimates of tokens by what the provider counted for the same chat before."""

import uuid
from dataclasses import dataclass

from django.db.models import QuerySet

from chatapp.models import Step, Turn
from chatapp.server.compiled_queries import compiled

# Outside of these, the provider's count is not of the same text: proxies report 0, or 1 a request.
PLAUSIBLE = (0.4, 2.5)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The last model call of a chat: tokens as `estimated` here, and as `counted` there.

    An estimate is rather too high. What it was too high by is known only for the text of that call,
    so what was added since is taken as estimated. Where it was too low, all of it is taken as too
    low.
    """

    estimated: int = 0
    counted: int = 0

    def to_estimate(self, tokens: int) -> int:
        """Return the size, in estimated tokens, of what a provider counts as this many."""
        if not self._is_plausible:
            return tokens
        if self.counted < self.estimated and tokens > self.counted:
            return tokens + self.estimated - self.counted
        return tokens * self.estimated // self.counted

    @property
    def _is_plausible(self) -> bool:
        low, high = PLAUSIBLE
        return low * self.estimated < self.counted < high * self.estimated


UNCALIBRATED = Calibration()


def load_calibration(turn: Turn) -> Calibration:
    """Return that of the last call of this chat to the same model that was counted."""
    last = _find_last_counted.first(turn.conversation_id, turn.model)
    return Calibration(*last) if last else UNCALIBRATED


@compiled
def _find_last_counted(conversation_id: uuid.UUID, model: str) -> QuerySet[Step, tuple[int, int]]:
    counted = Step.objects.filter(
        turn__conversation_id=conversation_id, turn__model=model, estimated_tokens__gt=0
    )
    counts = counted.order_by("-started_at").values_list("estimated_tokens", "input_tokens")
    return counts[:1]
