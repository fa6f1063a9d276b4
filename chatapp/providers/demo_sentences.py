"""Reads plain English sentences, by patterns, into what a person wants of the demo assistant."""

import json
import re
from collections.abc import Callable

from .demo_wishes import (
    AppendToNote,
    AskForHelp,
    CreateNote,
    DeleteNotes,
    ListNotes,
    ListTools,
    ReadLockedNote,
    ReadNotes,
    SearchArchive,
    SearchNotes,
    ShowEverything,
    ThinkAbout,
    Use,
    UseTools,
    Wish,
)

TITLES_AT_ONCE = 8
# The patterns take quadratic time on text made to confuse them; no plain request is longer.
SENTENCE_MAX_CHARACTERS = 2_000
POLITENESS = re.compile(
    r"(?:(?:hi|hello|hey|ok|okay|now|please|then|and)\b[\s,!.]*"
    r"|(?:can|could|would|will) you\s+|i(?:'d| would) like (?:you )?to\s+|i want (?:you )?to\s+)*",
    re.IGNORECASE,
)
MENTIONS = re.compile(r"(?:\s*@[\w./-]+[\s,:]*)*")
QUOTED = re.compile(r"“([^”]+)”|\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)")
BETWEEN_TITLES = re.compile(r"\s*,\s*and\s+|\s*,\s*|\s+and\s+|\s*&\s*", re.IGNORECASE)
AROUND_A_TITLE = re.compile(r"^(?:the |my |our )?(?:notes? )?(?:called |named |titled )?", re.I)
TOOL_ID = re.compile(r"[A-Za-z_][\w.-]*_[\w.-]*")

OUR = r"(?:the |my |our |all |all the |all my )?"
ABOUT = r"(?:about|on|with|for|that mention|mentioning|that contain)"
THEN_READ = r",? (?:and|then|and then) (?:read|open|show)(?: me)? (?:it|them|those)(?: all)?"
CALLED = r"(?:called|named|titled|with the title)"
SAYING = r"\s*(?::|,? with(?: the)? text:?|,? saying:?|,? that says:?)\s*"
TITLE = r"(?P<title>“[^”]+”|\"[^\"]+\"|[^:]+?)"

Reading = Callable[[re.Match[str]], Wish]


def understand(text: str) -> Wish:
    """What the person wants. What no pattern knows is a call for help."""
    text = plain(text)
    if len(text) <= SENTENCE_MAX_CHARACTERS:
        for pattern, read in SENTENCES:
            found = pattern.fullmatch(text)
            if found is not None:
                return read(found)
    return used_tools(text) or AskForHelp()


def plain(text: str) -> str:
    """The sentence without the mentions and the politeness before it."""
    text = text[len(_match(MENTIONS, text)) :].strip()
    return text[len(_match(POLITENESS, text)) :]


def title_of(text: str) -> str:
    """A title as the person meant it: without quotes, and without a final full stop."""
    text = text.strip()
    quoted = QUOTED.fullmatch(text)
    if quoted is not None:
        return next(group for group in quoted.groups() if group)
    return text.rstrip(" .!?")


def titles_of(text: str) -> tuple[str, ...]:
    """The titles of an enumeration; quotes keep one together that has a comma or an *and* in it."""
    quoted: list[str] = []

    def set_aside(found: re.Match[str]) -> str:
        quoted.append(title_of(found.group()))
        return f"\0{len(quoted) - 1}\0"

    pieces = BETWEEN_TITLES.split(QUOTED.sub(set_aside, text))
    plain = (title_of(AROUND_A_TITLE.sub("", piece.strip())) for piece in pieces)
    titles = (re.sub("\0(\\d+)\0", lambda found: quoted[int(found[1])], title) for title in plain)
    return tuple(dict.fromkeys(title for title in titles if title))[:TITLES_AT_ONCE]


def used_tools(text: str) -> UseTools | None:
    """`use a_b {"x": 1} and c_d {} then e_f {}`: *and* calls together, *then* one after another."""
    found = re.match(r"(?:use|call)\s+(?:the\s+)?(?:tool\s+)?", text, re.IGNORECASE)
    if found is None:
        return None
    rounds: list[list[Use]] = [[]]
    rest = text[found.end() :]
    while True:
        name = _match(TOOL_ID, rest)
        if not name:
            break
        arguments, rest = _arguments(rest[len(name) :])
        rounds[-1].append(Use(tool_id=name, arguments=arguments))
        joint = _match(
            re.compile(r"[\s,;]*(?:and\s+)?(?:then\s+)?(?:(?:use|call)\s+)?", re.I), rest
        )
        rest = rest[len(joint) :]
        if "then" in joint.lower():
            rounds.append([])
    meant = tuple(tuple(calls) for calls in rounds if calls)
    return UseTools(rounds=meant) if meant else None


def _arguments(text: str) -> tuple[str, str]:
    """The JSON object at the start of the text, as it was written, and what comes after it."""
    before = _match(re.compile(r"\s*(?:with\s+)?"), text)
    body = text[len(before) :]
    if not body.startswith("{"):
        return "{}", text
    try:
        _, end = json.JSONDecoder().raw_decode(body)
    except (ValueError, RecursionError):
        # Passed on as it is: what becomes of unreadable arguments is for the application to show.
        return body.strip(), ""
    return body[:end], body[end:]


def _match(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text)
    return found.group() if found else ""


def sentence(*patterns: str) -> re.Pattern[str]:
    whole = "|".join(patterns)
    return re.compile(rf"(?:{whole})(?:,? please)?[\s.!?]*", re.IGNORECASE | re.DOTALL)


def _search(found: re.Match[str]) -> Wish:
    return SearchNotes(words=title_of(found["words"]))


def _search_then_read(found: re.Match[str]) -> Wish:
    return SearchNotes(words=title_of(found["words"]), reads_found=True)


def _create(found: re.Match[str]) -> Wish:
    return CreateNote(title=title_of(found["title"]), text=(found["text"] or "").strip())


def _append(found: re.Match[str]) -> Wish:
    title = re.sub(r"\s+note[\s.!?]*$", "", AROUND_A_TITLE.sub("", found["title"]), flags=re.I)
    return AppendToNote(title=title_of(title), text=title_of(found["text"]))


def _read(found: re.Match[str]) -> Wish:
    return ReadNotes(titles=titles_of(found["titles"]))


def _delete(found: re.Match[str]) -> Wish:
    return DeleteNotes(titles=titles_of(found["titles"]))


# The order matters: the first pattern that fits the whole sentence wins.
SENTENCES: tuple[tuple[re.Pattern[str], Reading], ...] = (
    (
        sentence(r"show (?:me )?(?:everything|all)(?: (?:that )?you (?:can do|know))?", "show off"),
        lambda found: ShowEverything(),
    ),
    (
        sentence(r"(?:what|which|list|show)(?: me)? ?(?:all )?(?:the |your |my )?tools\b.*"),
        lambda found: ListTools(),
    ),
    (
        sentence(r"think(?: hard| carefully)? (?:about|of|over) (?P<subject>.+?)"),
        lambda found: ThinkAbout(subject=title_of(found["subject"])),
    ),
    (
        sentence(r"(?:read|open|show)(?: me)? (?:the |my )?locked note"),
        lambda found: ReadLockedNote(),
    ),
    (
        sentence(
            r"(?:search|look in|look through|scan) (?:the |my |our )?archive for (?P<words>.+?)",
        ),
        lambda found: SearchArchive(words=title_of(found["words"])),
    ),
    (
        sentence(rf"(?:find|look for|search for) {OUR}notes? {ABOUT} (?P<words>.+?){THEN_READ}"),
        _search_then_read,
    ),
    (
        sentence(rf"search {OUR}(?:notes|notebook) for (?P<words>.+?){THEN_READ}"),
        _search_then_read,
    ),
    (sentence(rf"read {OUR}notes {ABOUT} (?P<words>.+?)"), _search_then_read),
    (sentence(rf"(?:find|look for|search for) {OUR}notes? {ABOUT} (?P<words>.+?)"), _search),
    (sentence(rf"(?:search|look through) {OUR}(?:notes|notebook) for (?P<words>.+?)"), _search),
    (
        sentence(r"(?:which|what) notes? (?:mentions?|has|have|contains?) (?P<words>.+?)"),
        _search,
    ),
    (
        sentence(r"(?:read|open)(?: me)? (?:all|every)(?: of)?(?: the| my| our)? notes?"),
        lambda found: ListNotes(reads_all=True),
    ),
    (
        sentence(
            r"(?:what|which) notes (?:are there|do (?:i|we|you) have|exist)\b.*",
            rf"(?:list|show)(?: me)? {OUR}(?:notes|notebook)",
            r"what(?:'s| is) in (?:the|my|our) notebook",
        ),
        lambda found: ListNotes(),
    ),
    (
        sentence(
            rf"(?:create|make|write|start) (?:a |the )?(?:new )?note (?:{CALLED} )?{TITLE}"
            rf"(?:{SAYING}(?P<text>.+))?"
        ),
        _create,
    ),
    (
        sentence(rf"add (?:a |the )?(?:new )?note {CALLED} {TITLE}(?:{SAYING}(?P<text>.+))?"),
        _create,
    ),
    (sentence(r"(?:add|append|write) (?P<text>.+) (?:to|into) (?P<title>.+?)"), _append),
    (sentence(r"put (?P<text>.+) (?:into|on|in|to) (?P<title>.+?)"), _append),
    (sentence(r"(?:delete|throw away|remove(?!.* from )) (?P<titles>.+?)"), _delete),
    (
        sentence(
            r"show(?: me)? (?=(?:the |my |our )?notes? )(?P<titles>.+?)",
        ),
        _read,
    ),
    (sentence(r"(?:read|open)(?: me)? (?P<titles>.+?)"), _read),
    (sentence(r"what(?:'s| is) in (?P<titles>.+?)"), _read),
)
