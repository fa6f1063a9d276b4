"""What a tool's name says: the first verb decides, nouns raise or lower it."""

from collections.abc import Iterator, Sequence

from .vocabulary import (
    ACCESS_NOUNS,
    AMBIGUOUS,
    CODE_NOUNS,
    COMPUTED,
    CONNECTORS,
    EFFECTS,
    FOREIGN_STEMS,
    FOREIGN_VERBS,
    LIGHT_MADE,
    LIGHT_REMOVED,
    LOOKED_UP,
    MONEY_NOUNS,
    NOUN_LIKE_ENDINGS,
    NOUN_LIKE_READERS,
    OBSERVATIONS,
    OPERATIONS_NOUNS,
    REPORTS,
    SOCIAL_VERBS,
    SOFT_OPERATIONS,
    UNMISTAKABLE,
    VERBS,
    WHOLE_THINGS,
    Effect,
    word_set,
)
from .words import words_of

Spoken = Sequence[tuple[str, Effect]]

_OPERATING = word_set("apply merge manage restore complete connect update modify configure")
_RESTORING = frozenset({"restore", "merge"})
_ASKING = frozenset({"execute", "run"})
_MAKING = frozenset({"add", "post"})
_PLACES = frozenset({"to", "into", "on", "in"})
_CHANGING: frozenset[Effect] = frozenset({"changes", "controls", "removes"})


def effect_of_name(name: str) -> Effect | None:
    """The gravest thing that a name says; None where nothing in it is recognised."""
    words = words_of(name)
    effects = [effect for part in _parts(words) if (effect := effect_of(part, words))]
    return max(effects, key=EFFECTS.index, default=None)


def effect_of(words: Sequence[str], context: Sequence[str]) -> Effect | None:
    """What one phrase does, judged with the nouns of the whole name."""
    spoken = _verb_of(words)
    if spoken is None:
        return None
    verb, effect = spoken
    nouns = frozenset(context) - {verb}
    if verb == "query" and nouns & CODE_NOUNS:
        return "runs"
    if verb == "write" and nouns & (CODE_NOUNS | {"query"}):
        return "runs"
    if effect == "reads" or _only_reads(verb, nouns):
        return "reads"
    return _at_stake(verb, effect, nouns, words[-1])


def _only_reads(verb: str, nouns: frozenset[str]) -> bool:
    """Verbs that act on most things, and only look at these."""
    if verb in _ASKING and nouns & OBSERVATIONS and not nouns & CODE_NOUNS:
        return True
    return bool(nouns & {"resolve": LOOKED_UP, "convert": COMPUTED}.get(verb, frozenset()))


def _at_stake(verb: str, effect: Effect, nouns: frozenset[str], last: str) -> Effect:
    """The effect of a verb that does something, given what it is done to."""
    if verb in _MAKING and last in WHOLE_THINGS and not nouns & _PLACES:
        effect = "creates"
    if effect == "creates" and nouns & LIGHT_MADE:
        return "sends"
    if effect in _CHANGING and verb not in SOCIAL_VERBS and nouns & ACCESS_NOUNS:
        return "access"
    if effect in _CHANGING and nouns & MONEY_NOUNS:
        return "money"
    if effect == "removes" and (nouns & LIGHT_REMOVED or "from" in nouns):
        return "changes"
    in_use = nouns & OPERATIONS_NOUNS
    if effect == "controls" or verb in _RESTORING:
        in_use |= nouns & SOFT_OPERATIONS
    is_operated = effect == "controls" or verb in _OPERATING
    return "operates" if is_operated and in_use else effect


def _verb_of(words: Sequence[str]) -> tuple[str, Effect] | None:
    spoken = [(word, effect) for word in words if (effect := _effect_of_verb(word))]
    return _leading(spoken, words) if spoken else _without_verb(words)


def _leading(spoken: Spoken, words: Sequence[str]) -> tuple[str, Effect]:
    """The first verb, unless it reads and a later one does more than stand there as a noun."""
    verb, effect = spoken[0]
    if effect != "reads":
        return verb, effect
    for later, does in spoken[1:]:
        is_last_word = verb in NOUN_LIKE_READERS and later == words[-1]
        is_said = is_last_word and does != "reads" and later not in NOUN_LIKE_ENDINGS
        if later in UNMISTAKABLE or is_said:
            return later, does
    return verb, effect


def _effect_of_verb(word: str) -> Effect | None:
    return VERBS.get(word) or FOREIGN_VERBS.get(word) or _stem_effect(word)


def _without_verb(words: Sequence[str]) -> tuple[str, Effect] | None:
    if words and words[-1] in REPORTS:
        return words[-1], "reads"
    for word in words:
        if effect := AMBIGUOUS.get(word):
            return word, effect
    return next(((word, "reads") for word in words if word in REPORTS), None)


def _stem_effect(word: str) -> Effect | None:
    """The gravest stem inside a word of a script that has no spaces."""
    if word.isascii():
        return None
    held = [effect for stem, effect in FOREIGN_STEMS.items() if stem in word]
    return max(held, key=EFFECTS.index, default=None)


def _parts(words: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word in CONNECTORS:
            yield part
            part = []
        else:
            part.append(word)
    yield part
