"""What a tool's description says about its risk. The service wrote it, so it may raise a risk and
never lower one.

The first verb counts, and so does each later verb that the text makes an act of the tool: "it
deletes", "and then purges", "will revoke".
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from chatapp.permissions import reasons
from chatapp.permissions.risk_evidence import Finding, look_up_verb, make_finding
from chatapp.permissions.risk_vocabulary import (
    EFFECTS,
    FOREIGN_VERBS,
    LOOSE_VERBS,
    NOUN_LIKE_ACTIONS,
    NOUN_LIKE_GRAVE,
    QUESTIONS,
    SAID_CHANGES,
    VERBS,
    Effect,
    word_set,
)
from chatapp.permissions.word_splitting import split_words

_READ_CHARACTERS = 4_000
_GRAVE: frozenset[Effect] = frozenset({"deletes", "runs", "access", "money"})
_FILLERS = word_set("""
    this the a an tool function endpoint api to use used it will can be you permanently safely
    bulk irreversibly allows lets for
    """)
_NEAR = 6
_WARNINGS = (
    "cannot be undone",
    "can not be undone",
    "can t be undone",
    "cannot be recovered",
    "cannot be reverted",
    "irreversible",
    "irreversibly",
    "arbitrary code",
    "arbitrary command",
    "arbitrary sql",
    "arbitrary javascript",
    "arbitrary python",
    "any sql",
    "shell command",
    "permanently delete",
    "permanently remove",
    "factory reset",
    "data loss",
)
_SENTENCE_ENDS = re.compile(r"[.!?;:。！？；\n]")
# Words before a verb that make it something that the tool does.
_SUBJECTS = word_set("""
    it also and then which that tool this but automatically permanently silently afterwards
    additionally effect optionally finally
    """)
_MODALS = word_set("will also then automatically permanently silently")
_ADVICE = word_set("to use call if when before after see you users admins owners once please")
_REFUSALS = word_set("rejected refused blocked forbidden disallowed denied unsupported")
_DENIED = word_set("nothing no nicht nichts keine rien pas nada niente niets")
_GERUND_OPENERS = word_set("and then by optionally while also permanently silently")
_GERUND_BLOCKERS = word_set("""
    for of about on to before from in is are the a an any when or as with
    """) | {""}
_PASSIVES = word_set("is are gets get be been being")
# Words before a verb that take it back, or that make it what somebody else does.
_GUARDS = word_set("""
    not never without no nor neither cannot t don doesn isn how whether if unless instead avoid
    avoids prevents drag that were was who whose when until once
    nicht kein keine nie ne pas jamais nunca jamas nao non nao mai niet geen не нет ни δεν
    """)
_TAKES_BACK = _GUARDS - {"that"}
_INFINITIVE_MARKS = word_set("a zu de para da te do pour um per om para")
_GUARDED = 3


def _spell_third_person(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in "aeou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "z")) else f"{verb}s"


def _spell_gerund(verb: str) -> str:
    return f"{verb.removesuffix('e')}ing"


def _spell_participle(verb: str) -> str:
    return f"{verb.removesuffix('e')}ed"


_GRAVE_VERBS = {verb: does for verb, does in VERBS.items() if does in _GRAVE}
_FIRST_VERBS = {**VERBS, **{_spell_third_person(verb): does for verb, does in VERBS.items()}}
_OPENING_VERBS = _FIRST_VERBS.keys() | {"return", "returns"}
_LATER_VERBS = {verb: does for verb, does in _GRAVE_VERBS.items() if verb not in LOOSE_VERBS}
_LATER_FORMS = {_spell_third_person(verb): does for verb, does in _LATER_VERBS.items()}
_NOUN_LIKE_FORMS = {_spell_third_person(verb) for verb in NOUN_LIKE_ACTIONS | NOUN_LIKE_GRAVE}
_LATER_GERUNDS = {_spell_gerund(verb): does for verb, does in _LATER_VERBS.items()}
_DELETED = {_spell_participle(verb) for verb, does in VERBS.items() if does == "deletes"}
_DELETED |= {"overwritten", "removed"}
_CHANGING_FORMS = {_spell_third_person(verb) for verb in SAID_CHANGES}
_FOREIGN_GRAVE = {verb: does for verb, does in FOREIGN_VERBS.items() if does in _GRAVE}
_SAID_LATER = frozenset(
    {
        *_LATER_VERBS,
        *_LATER_FORMS,
        *_LATER_GERUNDS,
        *_DELETED,
        *_CHANGING_FORMS,
        *_FOREIGN_GRAVE,
    }
)


def judge_description(description: str) -> Iterator[Finding]:
    text = description[:_READ_CHARACTERS]
    sentences = [split_words(sentence) for sentence in _SENTENCE_ENDS.split(text)]
    words = [word for sentence in sentences for word in sentence]
    joined = " ".join(words)
    if any(warning in joined for warning in _WARNINGS):
        yield Finding(level="high", reason=reasons.DESCRIPTION_WARNS)
    yield from _judge_first_verb(words)
    for sentence in sentences:
        if not _SAID_LATER.isdisjoint(sentence):
            yield from _judge_sentence(sentence)
    if not joined.isascii():
        yield from _judge_foreign_script(words)


def _judge_first_verb(words: Sequence[str]) -> Iterator[Finding]:
    place = next((n for n, word in enumerate(words) if word not in _FILLERS), 0)
    first = "".join(words[place : place + 1])
    effect = _FIRST_VERBS.get(first)
    near = words[place : place + _NEAR]
    is_read_only = "readonly" in near or ("read", "only") in pairwise(near)
    is_question = effect == "runs" and (is_read_only or not QUESTIONS.isdisjoint(near))
    if effect in _GRAVE and not is_question:
        yield make_finding(effect, source=reasons.DESCRIPTION_SAYS)
    elif first in SAID_CHANGES or first in _CHANGING_FORMS:
        yield _SAID_CHANGE


_SAID_CHANGE = Finding(level="medium", reason=reasons.DESCRIPTION_SAYS_ALSO_CHANGES)


def _judge_sentence(words: Sequence[str]) -> Iterator[Finding]:
    """Yield findings for verbs after the first: "Returns a report, then deletes its source"."""
    for place, word in enumerate(words):
        if word not in _SAID_LATER:
            continue
        before = words[place - 1] if place else ""
        context = frozenset(words[max(0, place - _GUARDED) : place])
        if _TAKES_BACK & context or not _DENIED.isdisjoint(words[place + 1 : place + 2]):
            continue
        if effect := _find_later_effect(words, place):
            yield make_finding(effect, source=reasons.DESCRIPTION_SAYS)
        elif word in _CHANGING_FORMS and before in _SUBJECTS:
            yield _SAID_CHANGE
        elif word in _DELETED and before in _PASSIVES and _GUARDS.isdisjoint(words[:place]):
            yield Finding(level="medium", reason=reasons.DESCRIPTION_SAYS_DELETED)


def _find_later_effect(words: Sequence[str], place: int) -> Effect | None:
    """Return the effect of a verb that the words before it make an act of the tool."""
    word, before = words[place], words[place - 1] if place else ""
    is_in_list_of_nouns = before == "and" and word in _NOUN_LIKE_FORMS
    if (not before or before in _SUBJECTS) and word in _LATER_FORMS and not is_in_list_of_nouns:
        return _LATER_FORMS[word]
    if word in _LATER_VERBS and _is_said_of_the_tool(words, place):
        return _LATER_VERBS[word]
    if before in _GERUND_OPENERS and word in _LATER_GERUNDS:
        return _LATER_GERUNDS[word]
    if word in _LATER_GERUNDS and words[0] not in _ADVICE and before not in _GERUND_BLOCKERS:
        return _LATER_GERUNDS[word]
    return None if before in _INFINITIVE_MARKS else _FOREIGN_GRAVE.get(word)


def _is_said_of_the_tool(words: Sequence[str], place: int) -> bool:
    """Return whether a plain verb is an act of the tool: "will delete", "list and delete". Advice
    to the reader and lists of what is refused are not."""
    if not _REFUSALS.isdisjoint(words) or words[0] in _ADVICE:
        return False
    match words[place - 1] if place else "":
        case "and":
            return words[0] in _OPENING_VERBS
        case "may" | "might" | "must":
            return words[max(0, place - 2)] in _SUBJECTS
        case before:
            return before in _MODALS


def _judge_foreign_script(words: Sequence[str]) -> Iterator[Finding]:
    foreign = [word for word in words if not word.isascii()]
    effects = [effect for word in foreign if (effect := look_up_verb(word))]
    gravest = max(effects, key=EFFECTS.index, default=None)
    if gravest in _GRAVE and _TAKES_BACK.isdisjoint(foreign):
        yield make_finding(gravest, source=reasons.DESCRIPTION_SAYS)
    elif not effects and len(foreign) * 2 > len(words):
        yield Finding(level="medium", reason=reasons.DESCRIPTION_IN_UNKNOWN_SCRIPT)
