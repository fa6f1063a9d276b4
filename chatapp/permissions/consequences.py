"""What could go wrong with a call, told from the evidence for its risk."""

from collections.abc import Iterable

from .findings import PHRASES
from .vocabulary import Effect

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
# By how a reason begins or ends.
_OF_WORDS = {
    "It takes ": "What stands in that value is carried out as it is.",
    "It can send any request ": "It may carry what is in its values to any address.",
    "Nothing in its name ": "Only the service's own words say what it does.",
    " came before it.": "A stranger's words may have asked for this, and not you.",
}
_OF_LEVEL = {
    "high": "It may do harm that nobody can undo.",
    "medium": "It may change something, or tell somebody something.",
    "low": _OF_EFFECT["reads"],
}


def consequences_of(reasons: Iterable[str], level: str) -> list[str]:
    """A sentence for each piece of evidence that has one, each once; for none, what the level
    says. A level that nobody knows is a high one."""
    told = [sentence for reason in reasons for sentence in _of_reason(reason)]
    return list(dict.fromkeys(told)) or [_OF_LEVEL.get(level, _OF_LEVEL["high"])]


def _of_reason(reason: str) -> Iterable[str]:
    for effect, phrase in PHRASES.items():
        if reason.endswith(f"says that it {phrase}."):
            yield _OF_EFFECT[effect]
    for words, sentence in _OF_WORDS.items():
        if reason.startswith(words) or reason.endswith(words):
            yield sentence
