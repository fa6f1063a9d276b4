"""Several waiting calls answered by one click: each is decided by itself, about what was shown of
it, and may be refused while the others go through."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chatapp.models import Approval, Member, ToolCall

from . import answers
from .refusals import Refused

ALONE = "This is not run together with others: decide it here, by itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A call as a person saw it: the hash of what was shown, and when that was (Unix time)."""

    call: ToolCall
    binding: str
    shown_at: float


def run_together(selected: Iterable[Shown], *, by: Member) -> dict[uuid.UUID, str]:
    """Allow each of these once. Returns why those were refused that were; the others run."""

    def run(shown: Shown) -> None:
        approval = Approval.objects.filter(tool_call=shown.call).first()
        if approval is not None and not approval.may_be_batched:
            raise Refused(ALONE)
        answers.grant(shown.call, by=by, binding=shown.binding, shown_at=shown.shown_at)

    return _each(selected, run)


def deny_together(shown: Iterable[Shown], *, by: Member) -> dict[uuid.UUID, str]:
    """Do not run any of these, of whatever risk. Returns why those were refused that were."""
    return _each(shown, lambda each: answers.deny(each.call, by=by, binding=each.binding))


def _each(shown: Iterable[Shown], decide: Callable[[Shown], None]) -> dict[uuid.UUID, str]:
    refused = {}
    for each in shown:
        try:
            decide(each)
        except Refused as problem:
            refused[each.call.pk] = problem.sentence
    return refused
