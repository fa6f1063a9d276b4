"""The findings of checks: good, doubtful or wrong."""

from dataclasses import dataclass
from typing import Literal

State = Literal["good", "doubtful", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check. `hint` describes how to fix a problem."""

    subject: str
    state: State
    message: str
    hint: str = ""


def report_good(subject: str, message: str) -> Finding:
    return Finding(subject=subject, state="good", message=message)


def report_doubtful(subject: str, message: str, hint: str) -> Finding:
    """Return a finding about something that works but may need attention."""
    return Finding(subject=subject, state="doubtful", message=message, hint=hint)


def report_wrong(subject: str, message: str, hint: str) -> Finding:
    return Finding(subject=subject, state="wrong", message=message, hint=hint)
