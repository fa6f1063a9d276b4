"""Corrects estimates of tokens by what the provider counted for the same chat before."""

from dataclasses import dataclass

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
