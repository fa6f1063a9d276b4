"""Plain English sentences for the application's own tools, read into the calls that they need."""

import json
import re
from collections.abc import Callable
from typing import Any

from .demo_sentences import SENTENCE_MAX_CHARACTERS, plain, sentence, title_of, titles_of
from .demo_wishes import Use, UseTools

CHATS = r"(?:my |our |the )?(?:earlier |old |other |past )?(?:chats|conversations)"
QUESTIONS = [
    {
        "text": "How shall I answer you here?",
        "kind": "one",
        "options": ["In a sentence", "In a list", "With every detail"],
    },
    {
        "text": "What are you working on?",
        "kind": "several",
        "options": ["Notes", "Reports", "Something else"],
    },
    {"text": "Anything else that I should know?", "kind": "text"},
]

Reading = Callable[[re.Match[str]], UseTools]


def own_wish(text: str) -> UseTools | None:
    """The calls that the person wants; None for any other sentence."""
    wanted = plain(text)
    if len(wanted) > SENTENCE_MAX_CHARACTERS:
        return None
    found = ((pattern.fullmatch(wanted), read) for pattern, read in SENTENCES)
    return next((read(match) for match, read in found if match is not None), None)


def _calls(tool: str, *each: dict[str, Any]) -> UseTools:
    """One call after another."""
    return UseTools(
        rounds=tuple(
            (Use(tool_id=tool, arguments=json.dumps(arguments, ensure_ascii=False)),)
            for arguments in each
        )
    )


def _plan(found: re.Match[str]) -> UseTools:
    """The plan, then each step ticked as if it had been done."""
    steps = list(titles_of(found["steps"]))
    ticks = [
        {"done": [number]} | ({"doing": number + 1} if number < len(steps) else {})
        for number in range(1, len(steps) + 1)
    ]
    return _calls("make-plan", {"steps": steps, "doing": 1}, *ticks)


def _time(found: re.Match[str]) -> UseTools:
    return _calls("current-time", {"zone": title_of(found["zone"] or "UTC")})


SENTENCES: tuple[tuple[re.Pattern[str], Reading], ...] = (
    (
        sentence(r"what(?:'s| is) the time(?: now)?(?: in (?P<zone>.+?))?"),
        _time,
    ),
    (sentence(r"what time is it(?: now)?(?: in (?P<zone>.+?))?"), _time),
    (
        sentence(r"remember(?: that|:)? (?P<fact>.+?)"),
        lambda found: _calls("remember", {"text": title_of(found["fact"])}),
    ),
    (
        sentence(
            r"what do you (?:remember|know)(?: (?:about|of) me)?",
            r"what do you remember (?:about|of) (?P<words>.+?)",
        ),
        lambda found: _calls("recall", {"words": title_of(found["words"] or "")}),
    ),
    (sentence(r"make (?:me )?a plan(?: to| for|:)? (?P<steps>.+?)"), _plan),
    (
        sentence(r"ask me(?: (?:something|a question|some questions|questions))?"),
        lambda found: _calls("ask-person", {"why": "To help you better.", "questions": QUESTIONS}),
    ),
    (
        sentence(rf"(?:search|look through|look in) {CHATS} (?:for|about) (?P<words>.+?)"),
        lambda found: _calls("search-conversations", {"words": title_of(found["words"])}),
    ),
    (
        sentence(
            r"(?:which|what) services (?:are there|do (?:i|we|you) have|can (?:i|we|you) use)",
            r"(?:list|show)(?: me)? (?:the |my |all )?services",
        ),
        lambda found: _calls("list-services", {}),
    ),
)
