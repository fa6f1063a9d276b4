"""Several waiting calls answered by one click. Each is decided separately, under the hash of what
was shown, and may be refused while the others are accepted."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.utils.translation import gettext_lazy

from chatapp.models import Approval, Member, ToolCall
from chatapp.people.refused import Refused

from . import decisions

ALONE = gettext_lazy("This action cannot be allowed together with others. Decide it here.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCall:
    """A call as a person saw it: the hash of what was shown, and when that was (Unix time)."""

    call: ToolCall
    binding: str
    shown_at: float


def run_together(selected: Iterable[ShownCall], *, by: Member) -> dict[uuid.UUID, str]:
    """Allow each of these calls once. Return the reasons of those that were refused."""

    def run(shown: ShownCall) -> None:
        approval = Approval.objects.filter(tool_call=shown.call).first()
        if approval is not None and not approval.may_be_batched:
            raise Refused(ALONE)
        decisions.grant(shown.call, by=by, binding=shown.binding, shown_at=shown.shown_at)

    return _decide_each(selected, run)


def deny_together(shown: Iterable[ShownCall], *, by: Member) -> dict[uuid.UUID, str]:
    """Deny these calls, whatever their risk. Return the reasons of those that were refused."""
    return _decide_each(shown, lambda each: decisions.deny(each.call, by=by, binding=each.binding))


def _decide_each(
    shown: Iterable[ShownCall], decide: Callable[[ShownCall], None]
) -> dict[uuid.UUID, str]:
    refused = {}
    for each in shown:
        try:
            decide(each)
        except Refused as problem:
            refused[each.call.pk] = problem.sentence
    return refused
