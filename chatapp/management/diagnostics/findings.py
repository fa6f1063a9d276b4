"""What an examination found: in order, doubtful or wrong, in words."""

from dataclasses import dataclass
from typing import Literal

State = Literal["good", "doubtful", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. The hint says what to do about it."""

    subject: str
    state: State
    message: str
    hint: str = ""


def good(subject: str, message: str) -> Finding:
    return Finding(subject=subject, state="good", message=message)


def doubtful(subject: str, message: str, hint: str) -> Finding:
    """It works; a reason to look at it all the same."""
    return Finding(subject=subject, state="doubtful", message=message, hint=hint)


def wrong(subject: str, message: str, hint: str) -> Finding:
    return Finding(subject=subject, state="wrong", message=message, hint=hint)
