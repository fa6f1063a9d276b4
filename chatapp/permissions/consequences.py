"""What could go wrong with a call, derived from the reasons for its risk."""

from collections.abc import Iterable

from django.utils.translation import gettext

from . import reasons
from .reasons import gettext_noop
from .risk_vocabulary import Effect

_OF_EFFECT: dict[Effect, str] = {
    "reads": gettext_noop("The assistant and its model provider receive what it reads."),
    "changes": gettext_noop("Overwritten data may be lost."),
    "sends": gettext_noop("What it sends can’t be taken back."),
    "controls": gettext_noop("Something that others use may stop."),
    "removes": gettext_noop("Others may need what it removes."),
    "creates": gettext_noop("It may create something that others see or that costs money."),
    "operates": gettext_noop("It may disrupt a system that is in use."),
    "deletes": gettext_noop("Deleted data may be gone permanently."),
    "runs": gettext_noop("It can do anything that the program it runs can do."),
    "access": gettext_noop("People may gain or lose access."),
    "money": gettext_noop("Money that is sent may not come back."),
}
_EXECUTED = gettext_noop("The argument is executed exactly as written.")
_ANY_ADDRESS = gettext_noop("Its arguments may be sent to any address.")
_SERVICE_ONLY = gettext_noop("Only the service itself says what it does.")
_REACHES_OUTSIDE = gettext_noop("Its arguments may reach someone outside.")
_NOT_YOU = gettext_noop("The untrusted content may have asked for this call, not you.")
_OF_REASON = {
    **{
        sentences[effect]: consequence
        for sentences in (reasons.NAME_SAYS, reasons.DESCRIPTION_SAYS, reasons.ACTIONS_SAY)
        for effect, consequence in _OF_EFFECT.items()
    },
    reasons.TAKES_SQL: _EXECUTED,
    reasons.TAKES_COMMAND: _EXECUTED,
    reasons.TAKES_CODE: _EXECUTED,
    reasons.TAKES_ACTION: _EXECUTED,
    reasons.SENDS_ANY_REQUEST: _ANY_ADDRESS,
    reasons.ARGUMENT_DELETES: _OF_EFFECT["deletes"],
    reasons.ARGUMENT_CHANGES: _OF_EFFECT["changes"],
    reasons.DESCRIPTION_SAYS_ALSO_CHANGES: _OF_EFFECT["changes"],
    reasons.DESCRIPTION_SAYS_DELETED: _OF_EFFECT["deletes"],
    reasons.NAME_SAYS_NOTHING: _SERVICE_ONLY,
    reasons.NAME_HOLDS_SECOND_ACTION: _SERVICE_ONLY,
    reasons.NAME_IN_UNKNOWN_SCRIPT: _SERVICE_ONLY,
    reasons.DESCRIPTION_IN_UNKNOWN_SCRIPT: _SERVICE_ONLY,
    reasons.SENDS_TO_ADDRESS: _REACHES_OUTSIDE,
    reasons.SENDS_TO_RECIPIENT: _REACHES_OUTSIDE,
    reasons.SENDS_TO_SEARCH: _REACHES_OUTSIDE,
    reasons.TAINTED: _NOT_YOU,
    reasons.TAINTED_DESPITE_CONSENT: _NOT_YOU,
}
_OF_LEVEL = {
    "high": gettext_noop("It may cause harm that can’t be undone."),
    "medium": gettext_noop("It may change something or share information."),
    "low": _OF_EFFECT["reads"],
}


def list_consequences(stored: Iterable[str], level: str) -> list[str]:
    """Return one translated sentence for each stored reason that has one, without duplicates. If
    no reason has one, return the sentence of the level; an unknown level counts as high."""
    templates = (reasons.split_reason(reason)[0] for reason in stored)
    told = [_OF_REASON[template] for template in templates if template in _OF_REASON]
    if not told:
        told = [_OF_LEVEL.get(level, _OF_LEVEL["high"])]
    return [gettext(sentence) for sentence in dict.fromkeys(told)]
