"""The checks of `decide` in their order, and which of them gave the reason of a decision."""

from collections.abc import Mapping
from typing import Final, Literal

from . import reasons

Check = Literal[
    "switch",
    "refusing_rules",
    "plan_mode",
    "asking_rules",
    "doubt",
    "daily_limit",
    "two_approvals",
    "destinations",
    "permissions",
    "allowing_rules",
    "risk",
]

CHECKS: Final[tuple[Check, ...]] = (
    "switch",
    "refusing_rules",
    "plan_mode",
    "asking_rules",
    "doubt",
    "daily_limit",
    "two_approvals",
    "destinations",
    "permissions",
    "allowing_rules",
    "risk",
)

_CHECK_OF_REASON: Final[Mapping[str, Check]] = {
    reasons.TURNED_OFF: "switch",
    reasons.FORBIDDEN_BY_RULE: "refusing_rules",
    reasons.NOT_IN_PLAN_MODE: "plan_mode",
    reasons.ASKED_BY_RULE: "asking_rules",
    reasons.EVERYTHING_ASKS: "asking_rules",
    reasons.UNREADABLE_ARGUMENTS: "doubt",
    reasons.UNKNOWN_TOOL: "doubt",
    reasons.UNCONFIRMED: "doubt",
    reasons.SAME_CALL: "doubt",
    reasons.USED_ONCE_TODAY: "daily_limit",
    reasons.USED_TODAY: "daily_limit",
    **dict.fromkeys(reasons.NEEDS_TWO.values(), "two_approvals"),
    reasons.SENDS_TO_ADDRESS: "destinations",
    reasons.SENDS_TO_RECIPIENT: "destinations",
    reasons.SENDS_TO_SEARCH: "destinations",
    reasons.TAINTED_DESPITE_CONSENT: "permissions",
    reasons.ALLOWED_IN_ADVANCE: "permissions",
    reasons.ALLOWED_BY_RULE: "allowing_rules",
    **dict.fromkeys(reasons.NEEDS_APPROVAL.values(), "risk"),
    **dict.fromkeys(reasons.RUNS.values(), "risk"),
}


def find_check(reason: str) -> Check | None:
    """Return the check that gave this stored reason, or None if this version does not know it."""
    template, _values = reasons.split_reason(reason)
    return _CHECK_OF_REASON.get(template)
