"""What a tool's description says. Its service wrote it: it may raise a risk, never lower one."""

from collections.abc import Iterator

from .findings import Finding, found
from .vocabulary import VERBS, Effect, word_set
from .words import words_of

_READ_CHARACTERS = 4_000
_GRAVE: frozenset[Effect] = frozenset({"deletes", "runs", "access", "money"})
_FILLERS = word_set("""
    this the a an tool function endpoint api to use used it will can be you permanently safely
    bulk irreversibly allows lets for
    """)
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
    first = next((word for word in words if word not in _FILLERS), "")
    effect = VERBS.get(first) or VERBS.get(first.removesuffix("s"))
    if effect in _GRAVE:
        yield found(effect, source="Its description")
