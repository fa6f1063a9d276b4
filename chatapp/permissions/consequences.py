"""What could go wrong with a call, derived from the reasons for its risk."""

from collections.abc import Iterable

from chatapp.permissions.risk_evidence import PHRASES

from .risk_vocabulary import Effect

_OF_EFFECT: dict[Effect, str] = {
    "reads": "What it reads goes to the assistant, and so to the provider of its model.",
    "changes": "What it overwrites may not come back.",
    "sends": "What is sent to others cannot be called back.",
    "controls": "Something that others use may stop.",
    "removes": "Somebody may miss what it takes away.",
    "creates": "It may make something that others see, or that costs money.",
    "operates": "Something that is in use may change under people's hands.",
    "deletes": "What it deletes may be gone for good.",
    "runs": "It may do all that the program behind it can do.",
    "access": "Somebody may gain or lose rights.",
    "money": "Money that has left may not come back.",
}
# Keyed by how a reason begins or ends.
_OF_WORDS = {
    "It takes ": "What stands in that value is carried out as it is.",
    "It can send any request ": "It may carry what is in its values to any address.",
    "One of its values makes it delete ": _OF_EFFECT["deletes"],
    "One of its values makes it change ": _OF_EFFECT["changes"],
    "Its description says that it changes something as well": _OF_EFFECT["changes"],
    "Its description says that something is deleted": _OF_EFFECT["deletes"],
    "Nothing in its name ": "Only the service's own words say what it does.",
    "A second action in its name ": "Only the service's own words say what it does.",
    " in a script that is not known here.": "Only the service's own words say what it does.",
    "The answer has read untrusted content from ": "Its values may reach someone outside.",
    " came before it.": "A stranger's words may have asked for this, and not you.",
}
_OF_LEVEL = {
    "high": "It may do harm that nobody can undo.",
    "medium": "It may change something, or tell somebody something.",
    "low": _OF_EFFECT["reads"],
}


def list_consequences(reasons: Iterable[str], level: str) -> list[str]:
    """Return one sentence for each reason that has one, without duplicates. If no reason has
    one, return the sentence of the level; an unknown level counts as high."""
    told = [sentence for reason in reasons for sentence in _list_for_reason(reason)]
    return list(dict.fromkeys(told)) or [_OF_LEVEL.get(level, _OF_LEVEL["high"])]


def _list_for_reason(reason: str) -> Iterable[str]:
    for effect, phrase in PHRASES.items():
        if reason.endswith(f"says that it {phrase}."):
            yield _OF_EFFECT[effect]
    for words, sentence in _OF_WORDS.items():
        if reason.startswith(words) or reason.endswith(words):
            yield sentence
