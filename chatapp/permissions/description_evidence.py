"""What a tool's description says. Its service wrote it: it may raise a risk, never lower one."""

from collections.abc import Iterator

from .findings import Finding, found
from .vocabulary import OBSERVATIONS, VERBS, Effect, word_set
from .words import words_of

_READ_CHARACTERS = 4_000
_GRAVE: frozenset[Effect] = frozenset({"deletes", "runs", "access", "money"})
_FILLERS = word_set("""
    this the a an tool function endpoint api to use used it will can be you permanently safely
    bulk irreversibly allows lets for
    """)
# What one runs to learn something. A query is none of them: it may be in any language.
_QUESTIONS = OBSERVATIONS | word_set("search research report check audit scan diagnostics analysis")
_NEAR = 6
_WARNINGS = (
    "cannot be undone",
    "can not be undone",
    "can t be undone",
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
)


def judge_description(description: str) -> Iterator[Finding]:
    words = words_of(description[:_READ_CHARACTERS])
    text = " ".join(words)
    if any(warning in text for warning in _WARNINGS):
        yield Finding(level="high", reason="Its description warns of what it can do.")
    place = next((n for n, word in enumerate(words) if word not in _FILLERS), 0)
    first = "".join(words[place : place + 1])
    effect = VERBS.get(first) or VERBS.get(first.removesuffix("s"))
    is_question = effect == "runs" and not _QUESTIONS.isdisjoint(words[place : place + _NEAR])
    if effect in _GRAVE and not is_question:
        yield found(effect, source="Its description")
